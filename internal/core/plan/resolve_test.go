package plan

import (
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/must"
)

// TestResolve: datagrams follow from what arrived before, and a dead direction is not
// tried again but with smaller segments.
func TestResolve(t *testing.T) {
	test := func(name string, d model.Direction, dead bool) model.Test {
		return model.Test{Name: name, IfDead: dead, Flow: model.Flow{Engine: "tcpbulk", Direction: d, Duration: time.Second}}
	}
	p := model.Plan{Baseline: "one", Tests: []model.Test{test("one", model.To, false), test("small", model.To, true), test("smaller", model.To, true)}}
	run := func(name string, d model.Direction, state model.RunState, rate float64) model.Run {
		r := model.Run{Setting: name, State: state, Flow: model.Flow{Direction: d}}
		if rate > 0 {
			r.Values = []model.Value{{Direction: d, Metric: model.Goodput, Value: rate}}
		}
		return r
	}
	alive, dead := run("one", model.To, model.RunValid, 90e6), run("one", model.To, model.RunInvalid, 0)
	back := run("one", model.From, model.RunValid, 80e6)
	for name, c := range map[string]struct {
		test model.Test
		past []model.Run
		want bool
	}{
		"the first":                    {test("one", model.To, false), nil, true},
		"after one that lives":         {test("many", model.To, false), []model.Run{alive}, true},
		"after one that is dead":       {test("many", model.To, false), []model.Run{dead}, false},
		"the other way":                {test("many", model.From, false), []model.Run{dead, back}, true},
		"both ways, one dead":          {test("both", model.Both, false), []model.Run{dead, back}, false},
		"smaller segments of the dead": {test("small", model.To, true), []model.Run{dead}, true},
		"smaller segments of another":  {test("small", model.From, true), []model.Run{dead, back}, false},
		"after smaller ones failed":    {test("smaller", model.To, true), []model.Run{dead, run("small", model.To, model.RunInvalid, 0)}, false},
		"after smaller ones arrived":   {test("smaller", model.To, true), []model.Run{dead, run("small", model.To, model.RunValid, 1e6)}, true},
		"cut short, but it arrived":    {test("many", model.To, false), []model.Run{run("one", model.To, model.RunInvalid, 1e6)}, true},
	} {
		_, got := Resolve(p, c.test, c.past)
		must.True(t, got == c.want, "%s: %v", name, got)
	}
	paced := model.Test{Name: "half", Share: 0.5, Flow: model.Flow{Engine: udp.Name, Direction: model.From, Params: traffic.Write(udp.Params{Rate: 1})}}
	f, ok := Resolve(p, paced, []model.Run{alive, back})
	u, is := udp.Of(f)
	must.True(t, ok && is && u.Rate == 40e6, "half of 80 Mbit/s: %v, %+v", ok, f)
	paced.Flow.Duration = time.Second // in which 40 Mbit/s are 3400 full datagrams
	for rate, want := range map[float64]time.Duration{80e6: time.Second, 40e6: 1900 * time.Millisecond, 4e6: 4 * time.Second} {
		f, _ := Resolve(p, paced, []model.Run{alive, run("one", model.From, model.RunValid, rate)})
		must.Equal(t, f.Duration, want, "enough datagrams at half of %v bit/s", rate)
	}
	if _, ok := Resolve(p, paced, []model.Run{alive}); ok {
		t.Error("half of nothing is sent")
	}
	left := func(i int) time.Duration { return Left(p, i, Beside) }
	must.True(t, left(0) > left(1) && left(9) == 0 && Left(p, 0, 0) < left(0), "left: %s, %s, %s", left(0), left(1), left(9))
}
