package experiment

import (
	"context"
	"errors"
	"fmt"

	"linerate/internal/control/runner"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
)

// tests does the tests of a plan, one run each, which is a block of its own. A failed test is a
// result too: the next one follows. Tests in past runs are not repeated.
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
		run, err := e.tryTest(ctx, i+1, t.Name, flow)
		if err != nil {
			return err
		}
		if run.State != model.RunValid {
			failed++
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

// tryTest does one test, and repeats it if contact with a host was lost: that says nothing
// about the path. Its error is that of a run after which no other one can follow.
func (e *experiment) tryTest(ctx context.Context, block int, name string, flow model.Flow) (model.Run, error) {
	for attempt := 1; ; attempt++ {
		run, err := e.run(ctx, runner.Spec{
			Number: len(e.out.Runs) + 1, Block: block, Attempt: attempt, Position: 1,
			Setting: model.Setting{Name: name}, Flow: flow, Settle: e.Plan.Settle,
		}, 1)
		switch {
		case run.State == model.RunValid && err == nil:
			return run, nil
		case run.State != model.RunInvalid, errors.Is(err, runner.ErrGreedy), errors.Is(err, runner.ErrStuck), errors.Is(err, errRecord):
			return run, err
		}
		if err := e.recover(ctx, run); err != nil || !run.LostContact {
			return run, err
		}
		if attempt > stats.BlockRepeats {
			return run, fmt.Errorf("%s: %w in each of %d attempts: %s", name, runner.ErrContact, attempt, run.Reason)
		}
	}
}
