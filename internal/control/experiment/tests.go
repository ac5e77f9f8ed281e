package experiment

import (
	"context"
	"errors"
	"fmt"

	"linerate/internal/control/runner"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
)

// tests does the tests of a plan, one run each, which is a block of its own. One
// that fails is an answer too: the next one follows. Those that past runs hold are
// not done again.
func (e *experiment) tests(ctx context.Context) error {
	failed := 0
	for i, t := range e.Plan.Tests {
		if lastBlock(e.out.Runs) > i {
			continue
		}
		flow, wanted := plan.Resolve(e.Plan, t, e.out.Runs)
		if !wanted {
			continue
		}
		if e.out.Reason = e.overBudget(); e.out.Reason != "" {
			return nil
		}
		e.test = i
		e.Observe(e.event(Event{Kind: BlockStarted, Block: i + 1, RunsInBlock: 1}))
		run, err := e.run(ctx, runner.Spec{
			Number: len(e.out.Runs) + 1, Block: i + 1, Attempt: 1, Position: 1,
			Setting: model.Setting{Name: t.Name}, Flow: flow, Settle: e.Plan.Settle,
		}, 1)
		switch {
		case run.State == model.RunValid && err == nil:
		case run.State != model.RunInvalid, errors.Is(err, runner.ErrGreedy), errors.Is(err, runner.ErrStuck), errors.Is(err, errRecord):
			return err
		default:
			failed++
			if err := e.recover(ctx, run); err != nil {
				return err
			}
		}
		if err := e.rest(ctx, i+1, i+1 == len(e.Plan.Tests)); err != nil {
			return err
		}
	}
	e.test = len(e.Plan.Tests)
	e.out.Reason = "all tests are done"
	if failed > 0 {
		e.out.Reason += fmt.Sprintf("; %d failed", failed)
	}
	return nil
}
