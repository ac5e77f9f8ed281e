package cli

import (
	"testing"

	"linerate/internal/core/model"
)

// The median run is one that counts: not one of a block that was spoilt and done
// again, and not whichever of two equal ones a sort without equality picks.
func TestMedianRun(t *testing.T) {
	run := func(number, block, attempt int, state model.RunState, goodput float64) model.Run {
		return model.Run{Number: number, Block: block, Attempt: attempt, Position: 1, Setting: "as is", State: state,
			Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: goodput}}}
	}
	s := model.Session{
		Plan: model.Plan{Settings: []model.Setting{{Name: "as is"}}, Baseline: "as is", MaxBlocks: 3,
			Order: [][]string{{"as is"}, {"as is"}, {"as is"}}, Mode: model.FixedBlocks, Flow: model.Flow{Direction: model.To}},
		Runs: []model.Run{
			run(1, 1, 1, model.RunInvalid, 1e9), run(2, 2, 1, model.RunValid, 5e8), run(3, 3, 1, model.RunValid, 5e8), run(4, 1, 2, model.RunValid, 4e8),
		},
	}
	if r, ok := medianRun(s, model.To); !ok || r.Number != 2 {
		t.Errorf("run %d", r.Number)
	}
	s.Plan.Settings = append(s.Plan.Settings, model.Setting{Name: "b"})
	s.Plan.Order = [][]string{{"as is", "b"}, {"as is", "b"}}
	other := func(number, block, attempt int, state model.RunState) model.Run {
		r := run(number, block, attempt, state, 1e6)
		r.Setting, r.Position = "b", 2
		return r
	}
	s.Runs = []model.Run{
		run(1, 1, 1, model.RunValid, 9e8), other(2, 1, 1, model.RunInvalid), // spoilt: not counted
		run(3, 1, 2, model.RunValid, 1e8), other(4, 1, 2, model.RunValid),
		run(5, 2, 1, model.RunValid, 2e8), other(6, 2, 1, model.RunValid),
	}
	if r, ok := medianRun(s, model.To); !ok || r.Number != 3 {
		t.Errorf("run %d of a spoilt block", r.Number)
	}
}
