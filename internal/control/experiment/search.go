package experiment

import (
	"context"
	"fmt"
	"strconv"

	"linerate/internal/control/runner"
	"linerate/internal/core/model"
	"linerate/internal/core/search"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// RateSetting is the setting of a search's runs at one rate.
func RateSetting(rate units.BitRate) model.Setting {
	return model.Setting{
		Name:        rate.String(),
		Assignments: []model.Assignment{{Knob: "rate", Value: strconv.FormatFloat(float64(rate), 'f', -1, 64)}},
	}
}

// search does one run after the other, each at the rate that follows from those
// before it. Every run is a block of its own.
func (e *experiment) search(ctx context.Context) error {
	flow := e.Plan.Flow
	flow.Direction = e.Plan.Directions[0]
	invalid := 0
	for block := 1 + lastBlock(e.out.Runs); ; block++ {
		rate, more := search.Next(*e.Plan.Search, search.Trials(e.out.Runs, flow.Direction))
		switch {
		case !more:
			e.out.Reason = "the search is complete"
			return nil
		case e.overBudget():
			e.out.Reason = "the time budget is spent"
			return nil
		}
		run, err := e.run(ctx, runner.Spec{
			Number: len(e.out.Runs) + 1, Block: block, Attempt: 1, Position: 1, Setting: RateSetting(rate), Flow: flow, Settle: e.Plan.Settle,
		}, 1)
		if err != nil {
			return err
		}
		if run.State != model.RunValid {
			if invalid++; invalid > stats.BlockRepeats {
				return fmt.Errorf("%d runs in sequence are invalid; the last one: %s", invalid, run.Reason)
			}
			if err := e.recover(ctx, run); err != nil {
				return err
			}
			continue
		}
		invalid = 0
		if err := e.rest(ctx, block, false); err != nil {
			return err
		}
	}
}

// lastBlock is the greatest block of runs, 0 without any.
func lastBlock(runs []model.Run) int {
	last := 0
	for _, r := range runs {
		last = max(last, r.Block)
	}
	return last
}
