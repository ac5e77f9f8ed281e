package experiment

import (
	"context"
	"fmt"
	"slices"

	"linerate/internal/control/runner"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/core/sweep"
	"linerate/internal/core/traffic/sizes"
)

// confirm measures again, in passes of their own, the sizes at which the passes so far show
// something odd: an effect found by looking must not be judged by the data in which it was
// found (statistics.md section 9). Every pass is a block of its own.
func (e *experiment) confirm(ctx context.Context) error {
	for _, d := range e.Plan.Directions {
		if err := e.confirmWay(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (e *experiment) confirmWay(ctx context.Context, d model.Direction) error {
	invalid := 0
	for {
		survey, again := sweep.Passes(valid(e.out.Runs), d)
		candidates := sweep.Pool(survey).Features
		left := func(f sweep.Feature) bool { return f.State == sweep.Candidate || f.State == sweep.Open }
		if len(again) >= sweep.ConfirmPasses(len(candidates)) || !slices.ContainsFunc(sweep.Confirmed(candidates, again), left) {
			return nil
		}
		if spent := e.overBudget(); spent != "" {
			e.out.Reason = spent
			return nil
		}
		setting, _ := e.Plan.Setting(e.Plan.Baseline) // the only one
		setting.Name = sweep.ConfirmSetting
		flow := e.Plan.Flow
		flow.Direction = d
		s, _ := sizes.Of(flow)
		s.Sizes = plan.SweepOrder(sweep.Confirm(candidates), e.Plan.Seed+1, 1+len(again))
		flow = sizes.With(flow, s)
		run, err := e.run(ctx, runner.Spec{
			Number: len(e.out.Runs) + 1, Block: 1 + lastBlock(e.out.Runs), Attempt: 1, Position: 1,
			Setting: setting, Flow: flow, Settle: e.Plan.Settle,
		}, 1)
		if err != nil {
			return err
		}
		if run.State == model.RunValid {
			invalid = 0
			continue
		}
		if invalid++; invalid > stats.BlockRepeats {
			return fmt.Errorf("%d runs in sequence are invalid; the last one: %s", invalid, run.Reason)
		}
		if err := e.recover(ctx, run); err != nil {
			return err
		}
	}
}

// valid returns the runs that count.
func valid(runs []model.Run) []model.Run {
	return slices.DeleteFunc(slices.Clone(runs), func(r model.Run) bool { return r.State != model.RunValid })
}
