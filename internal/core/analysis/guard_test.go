package analysis

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
)

func TestGuards(t *testing.T) {
	for mode, change := range map[string]func(*plan.Options){"sequential": nil, "fixed": fixed(20)} {
		p := newPlan(t, 2, change)
		with := func(blocks int, retransmits, rtt float64) []model.Run {
			runs := runsOf(p, blocks, steady(p, nil))
			for i := range runs {
				wobble := float64(runs[i].Number%3) / 10 // both settings alike
				lost, trip := 2+wobble, 0.010*(1+wobble/100)
				if runs[i].Setting == "s1" {
					lost, trip = lost+retransmits, trip*(1+rtt)
				}
				runs[i].Values = append(runs[i].Values,
					model.Value{Direction: model.To, Metric: model.Retransmits, Value: lost},
					model.Value{Direction: model.To, Metric: model.RTT, Value: trip})
			}
			return runs
		}
		guards := []Guard{{Metric: model.Retransmits, Margin: 5}, {Metric: model.RTT, Margin: 0.10}}
		for _, c := range []struct {
			name             string
			retransmits, rtt float64
			holds            [2]bool
		}{
			{"harmless", 0, 0, [2]bool{true, true}},
			{"within the margins", 1, 0.02, [2]bool{true, true}},
			{"lossy", 9, 0, [2]bool{false, true}},
			{"slow", 0, 0.3, [2]bool{true, false}},
		} {
			got := Guards(p, with(24, c.retransmits, c.rtt), "s1", guards)
			if len(got) != 2 {
				t.Fatalf("%s: %d results", c.name, len(got))
			}
			for i, g := range got {
				if g.Holds != c.holds[i] || g.Holds != (g.Reason == "") || g.Blocks != 20 || g.Direction != model.To {
					t.Errorf("%s, %s: %+v, want holds %v", mode, c.name, g, c.holds[i])
				}
			}
		}
		thin := Guards(p, with(p.NullBlocks+2, 0, 0), "s1", guards)
		if thin[0].Holds || thin[0].MoreBlocks < 1 || thin[0].Reason == "" {
			t.Errorf("%s, two blocks: %+v", mode, thin[0])
		}
		if none := Guards(p, with(0, 0, 0), "s1", guards); none[0].Holds || none[0].Reason == "" {
			t.Errorf("%s, no blocks: %+v", mode, none[0])
		}
	}
}
