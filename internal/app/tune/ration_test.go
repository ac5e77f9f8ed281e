package tune

import (
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// TestRationed: what is left has room for runs as large as the largest one, after those
// of the confirmation; a setting that helps leaves room for fewer.
func TestRationed(t *testing.T) {
	run := func(size units.Bytes) model.Run {
		return model.Run{State: model.RunValid, Flow: model.Flow{Duration: time.Second}, Ends: []model.EndReport{
			{Host: model.Far, Flows: []model.FlowReport{{Direction: model.To, Role: model.Receiver, Bytes: size, Window: time.Second}}},
		}}
	}
	for name, c := range map[string]struct {
		data units.Bytes
		runs []model.Run
		want int
	}{
		"no limit":        {0, []model.Run{run(1e6)}, 0},
		"nothing sent":    {1e9, nil, 0},
		"as the first":    {100e6, []model.Run{run(1e6), run(1e6)}, 2 + 98 - 10},
		"ten times as it": {100e6, []model.Run{run(1e6), run(10e6)}, 2 + 8 - 10 + 1}, // 8.9 of the large ones, and none is left: the least
		"spent":           {3e6, []model.Run{run(2e6), run(2e6)}, 1},
	} {
		if got := rationed(c.data, c.runs, 10, len(c.runs)); got != c.want {
			t.Errorf("%s: %d runs, want %d", name, got, c.want)
		}
	}
}
