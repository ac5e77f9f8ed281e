package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
)

// held is what stays in force between two runs of a group. Both hosts hold it like the setting
// of a run: in one transaction, journalled before anything is written, with the same kind of
// deadline, and undone as a whole by whatever undoes a run.
type held struct {
	spec    Spec // of the last run
	changes []model.Change
}

// goesOn reports whether the hosts already hold what the group of a shares. It undoes what is
// held for another group.
func (a *attempt) goesOn(ctx context.Context) error {
	h := a.held
	if h == nil {
		return nil
	}
	if slices.Equal(h.spec.Held, a.spec.Held) {
		a.held, a.inForce, a.changes = nil, a.spec.Held, h.changes
		return nil
	}
	changes, err := a.release(ctx)
	a.changes = changes
	return err
}

// mine returns the setting's assignments for the host of c that are not yet in force.
func (a *attempt) mine(c *session.Client) []model.Assignment {
	return slices.DeleteFunc(of(c.Host(), a.spec.Setting.Assignments), func(as model.Assignment) bool {
		return slices.Contains(a.inForce, as)
	})
}

// hold leaves the setting in force for the next run of its group. The hosts undo it by
// themselves if that run does not come in time.
func (a *attempt) hold(ctx context.Context) error {
	within := min(a.spec.Hold+a.patience(slack), session.MaxDuration)
	err := each(a.touched(), func(c *session.Client) error { return c.Extend(ctx, within) })
	if err == nil {
		a.held, a.changes = &held{spec: a.spec, changes: a.changes}, nil
		return nil
	}
	if ctx.Err() != nil || errors.Is(err, ErrContact) {
		return err
	}
	return invalid("the setting is not held for the next run of its group: %w", err)
}

// Release undoes what is held for the next run of a group, even if ctx has ended, and returns
// the outcome. It does nothing if nothing is held.
func (r *Runner) Release(ctx context.Context) ([]model.Change, error) {
	r.busy.Lock()
	defer r.busy.Unlock()
	return r.release(ctx)
}

func (r *Runner) release(ctx context.Context) ([]model.Change, error) {
	if r.held == nil {
		return nil, nil
	}
	a := &attempt{Runner: r, spec: r.held.spec, changes: r.held.changes}
	r.held = nil
	if err := a.undo(ctx, nil); err != nil {
		return a.changes, fmt.Errorf("undo what a group of runs shared: %w", err)
	}
	return a.changes, nil
}
