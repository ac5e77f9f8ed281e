package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/atboot"
	"linerate/internal/host/journal"
)

// ErrNotPending says that a transaction to confirm is not applied (any more).
var ErrNotPending = errors.New("nothing of that is applied any more: it went back before the confirmation came")

// Confirm keeps a transaction (see Client.Transaction) that the watchdog of
// another process has applied, and returns when that is so for good: the
// watchdog lets go of it, and only Revert takes it back. The error wraps
// ErrNotPending when the transaction was undone before.
func Confirm(ctx context.Context, cfg Config, transaction string) error {
	dir, err := cfg.dir()
	if err != nil {
		return err
	}
	again := time.NewTicker(retry)
	defer again.Stop()
	for asked := false; ; {
		records, _, err := journal.Read(dir) // damage elsewhere does not matter here
		if err != nil {
			return err
		}
		switch journal.StateOf(records, transaction) {
		case journal.Confirmed:
			return nil
		case journal.Over, journal.Unheard:
			return fmt.Errorf("confirm %s: %w", transaction, ErrNotPending)
		case journal.Pending:
		}
		if !asked {
			if err := journal.Confirm(dir, transaction); err != nil {
				return err
			}
			asked = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("confirm %s: %w", transaction, ctx.Err())
		case <-again.C:
		}
	}
}

// Revert does what Recover does, and takes back what was confirmed as well,
// newest first. It fails like Recover.
func Revert(ctx context.Context, cfg Config) ([]model.Change, error) {
	return revert(ctx, cfg, func(journal.Unfinished) bool { return true })
}

// RevertOne is Revert of one transaction: what was confirmed before it stays, and
// so does what was confirmed after it. Where a later change was made on top of it
// that is not undone, it is left as it is and returned as applied, with the
// reason. It fails like Recover.
func RevertOne(ctx context.Context, cfg Config, transaction string) ([]model.Change, error) {
	return revert(ctx, cfg, func(o journal.Unfinished) bool { return o.Transaction == transaction })
}

// revert takes back what a killed watchdog left, and what was confirmed and is
// wanted back.
func revert(ctx context.Context, cfg Config, wanted func(journal.Unfinished) bool) ([]model.Change, error) {
	dir, err := cfg.dir()
	if err != nil {
		return nil, err
	}
	records, damage, err := journal.Read(dir)
	if err != nil {
		return nil, err
	}
	if len(damage) == 0 && len(journal.OpenIntents(records)) == 0 && len(journal.ConfirmedIntents(records)) == 0 && !atboot.Installed(dir) {
		return nil, nil
	}
	j, err := cfg.open(ctx, dir)
	if err != nil {
		return nil, err
	}
	m := newMachine(cfg, j)
	changes, err := m.insist(ctx, func(ctx context.Context) ([]model.Change, error) {
		changes, err := m.recover(ctx)
		kept, keptErr := m.undoConfirmed(ctx, wanted)
		return append(changes, kept...), errors.Join(err, keptErr)
	})
	open := len(slices.DeleteFunc(j.OpenIntents(), m.elsewhere)) > 0
	if closeErr := j.Close(); closeErr != nil || !open {
		return changes, errors.Join(err, closeErr)
	}
	return goOn(ctx, cfg, changes, err)
}

// undoConfirmed undoes the confirmed intents of this machine in this network
// namespace that are wanted back, and reports those of others.
func (m *machine) undoConfirmed(ctx context.Context, wanted func(journal.Unfinished) bool) ([]model.Change, error) {
	var here, away []journal.Unfinished
	var covered []model.Change
	all := m.j.ConfirmedIntents()
	for i, o := range all {
		switch {
		case !wanted(o):
		case m.elsewhere(o):
			away = append(away, o)
		case slices.ContainsFunc(all[i+1:], func(later journal.Unfinished) bool {
			return later.Place == o.Place && !wanted(later) && !m.elsewhere(later)
		}):
			covered = append(covered, change(o, model.ChangeApplied, "left alone: a change that was confirmed later was made on top of it"))
		default:
			here = append(here, o)
		}
	}
	changes, err := m.undo(ctx, here)
	return slices.Concat(changes, covered, changesElsewhere(away)), err
}

func changesElsewhere(away []journal.Unfinished) []model.Change {
	var changes []model.Change
	for _, o := range away {
		changes = append(changes, change(o, model.ChangeApplied, "left alone: it was made in another network namespace of this machine"))
	}
	return changes
}
