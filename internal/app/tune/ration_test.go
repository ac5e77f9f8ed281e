package tune

import (
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// TestRationed: what is left has room for runs of both settings, after a proof of six
// blocks; a setting that helps leaves room for fewer, and so does one that could.
func TestRationed(t *testing.T) {
	run := func(size units.Bytes) model.Run {
		return model.Run{State: model.RunValid, Flow: model.Flow{Duration: time.Second}, Ends: []model.EndReport{
			{Host: model.Far, Flows: []model.FlowReport{{Direction: model.To, Role: model.Receiver, Bytes: size, Window: time.Second}}},
		}}
	}
	for name, c := range map[string]struct {
		data, full units.Bytes
		runs       []model.Run
		want       int
	}{
		"no limit":        {0, 0, []model.Run{run(1e6)}, 0},
		"nothing sent":    {1e9, 0, nil, 0},
		"as the first":    {100e6, 0, []model.Run{run(1e6), run(1e6)}, 2 + 98 - 12},
		"a full path":     {100e6, 9e6, []model.Run{run(1e6)}, 1 + 7}, // 99 less 60, runs of 5 each
		"ten times as it": {100e6, 0, []model.Run{run(1e6), run(9e6)}, 2 + 6},
		"no room":         {30e6, 9e6, []model.Run{run(1e6)}, 1},
		"spent":           {3e6, 0, []model.Run{run(2e6), run(2e6)}, 1},
	} {
		if got := rationed(c.data, c.full, c.runs, 1, len(c.runs)); got != c.want {
			t.Errorf("%s: %d runs, want %d", name, got, c.want)
		}
	}
}
