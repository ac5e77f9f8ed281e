package watchdog

import (
	"context"
	"errors"
	"fmt"
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
	changes, err := m.recover(ctx)
	kept, keptErr := m.undoConfirmed(ctx)
	return append(changes, kept...), errors.Join(err, keptErr, j.Close())
}

// undoConfirmed undoes all confirmed intents of this machine in this network
// namespace, and reports those of others.
func (m *machine) undoConfirmed(ctx context.Context) ([]model.Change, error) {
	var here, away []journal.Unfinished
	for _, o := range m.j.ConfirmedIntents() {
		if m.elsewhere(o) {
			away = append(away, o)
			continue
		}
		here = append(here, o)
	}
	changes, err := m.undo(ctx, here)
	return append(changes, changesElsewhere(away)...), err
}

func changesElsewhere(away []journal.Unfinished) []model.Change {
	var changes []model.Change
	for _, o := range away {
		changes = append(changes, change(o, model.ChangeApplied, "left alone: it was made in another network namespace of this machine"))
	}
	return changes
}
