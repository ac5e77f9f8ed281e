package watchdog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/atboot"
	"linerate/internal/host/journal"
)

// ErrNotPending reports that a transaction to confirm is not, or no longer, applied.
var ErrNotPending = errors.New("nothing of that is applied any more: it went back before the confirmation came")

// leavingError is ErrNotPending for a transaction that is still partly applied.
type leavingError struct{}

// Error says what happens to the rest.
func (leavingError) Error() string {
	return "it is being undone: a part of it is back already, and the rest will be"
}

// Is makes it match ErrNotPending.
func (leavingError) Is(target error) bool { return target == ErrNotPending }

// Confirm keeps a transaction (see Client.Transaction) that the watchdog of another process
// has applied, and returns once that is permanent: the watchdog releases it, and only Revert
// undoes it. The error wraps ErrNotPending if the transaction was undone before.
func Confirm(ctx context.Context, cfg Config, transaction string) error {
	dir, err := cfg.state()
	if err != nil {
		return err
	}
	again := time.NewTicker(retry)
	defer again.Stop()
	for asked := false; ; {
		records, _, err := dir.Read() // damage elsewhere does not matter here
		if err != nil {
			return err
		}
		switch journal.StateOf(records, transaction) {
		case journal.Confirmed:
			// a record whose sync failed may be seen too, and be cut off again
			if !dir.Confirming(transaction) {
				return nil
			}
		case journal.Over, journal.Unheard:
			dir.Withdraw(transaction)
			return fmt.Errorf("confirm %s: %w", transaction, ErrNotPending)
		case journal.Leaving:
			dir.Withdraw(transaction)
			return fmt.Errorf("confirm %s: %w", transaction, leavingError{})
		case journal.Pending:
		}
		if !asked && journal.StateOf(records, transaction) == journal.Pending {
			if err := dir.Confirm(transaction); err != nil {
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

// Revert does what Recover does, and also undoes what was confirmed, newest first. Its errors
// are those of Recover.
func Revert(ctx context.Context, cfg Config) ([]model.Change, error) {
	return revert(ctx, cfg, func(journal.Unfinished) bool { return true })
}

// RevertOne is Revert for one transaction: changes confirmed before or after it stay. A
// change that lies under a later one, which is not undone, is left as it is and returned as
// applied, with the reason. Its errors are those of Recover.
func RevertOne(ctx context.Context, cfg Config, transaction string) ([]model.Change, error) {
	return revert(ctx, cfg, func(o journal.Unfinished) bool { return o.Transaction == transaction })
}

// revert undoes what a killed watchdog left, and the confirmed intents that wanted selects.
func revert(ctx context.Context, cfg Config, wanted func(journal.Unfinished) bool) ([]model.Change, error) {
	cfg.sys = cfg.system()
	dir, err := cfg.state()
	if err != nil {
		return nil, err
	}
	records, damage, err := dir.Read()
	if err != nil {
		return nil, err
	}
	if len(damage) == 0 && len(journal.OpenIntents(records)) == 0 && len(journal.ConfirmedIntents(records)) == 0 && !atboot.Installed(dir.Path) {
		return nil, nil
	}
	j, err := cfg.open(ctx, dir)
	if err != nil {
		return nil, err
	}
	m := newMachine(cfg, j)
	m.takeConfirmation()
	changes, err := m.insist(ctx, func(ctx context.Context) ([]model.Change, error) { return m.takeBack(ctx, wanted) })
	open := len(slices.DeleteFunc(j.OpenIntents(), m.elsewhere)) > 0
	if closeErr := j.Close(); closeErr != nil || !open {
		return changes, errors.Join(err, closeErr)
	}
	return goOn(ctx, cfg, changes, err)
}

// takeBack undoes open intents and the confirmed ones that wanted selects, of this machine in
// this network namespace: for each place as one chain, since confirmed intents may lie under
// open ones. It reports what it leaves alone.
func (m *machine) takeBack(ctx context.Context, wanted func(journal.Unfinished) bool) ([]model.Change, error) {
	var errs []error
	if d := m.j.Damage(); len(d) > 0 {
		errs = append(errs, fmt.Errorf("%s: %s: %w; what is left of it is kept beside it", filepath.Dir(m.j.Path()), d[0], journal.ErrDamaged))
	}
	var here, away []journal.Unfinished
	var covered []model.Change
	all := m.j.Unfinished()
	for i, o := range all {
		switch {
		case o.Confirmed && !wanted(o):
		case m.elsewhere(o):
			away = append(away, o)
		case o.Confirmed && slices.ContainsFunc(all[i+1:], func(later journal.Unfinished) bool {
			return later.Confirmed && later.Place == o.Place && !wanted(later) && !m.elsewhere(later)
		}):
			covered = append(covered, change(o, model.ChangeApplied, "left alone: a change that was confirmed later was made on top of it"))
		default:
			here = append(here, o)
		}
	}
	for _, o := range here {
		if o.Confirmed { // from now on any recovery finishes it; without room for the record it is undone all the same
			_ = m.record(journal.Record{Kind: journal.KindRevoked, Transaction: o.Transaction, Number: o.Number}, "revoked "+string(o.Knob))
		}
	}
	changes, err := m.undoThese(ctx, here)
	return slices.Concat(changes, covered, changesElsewhere(away)), errors.Join(append(errs, err)...)
}

func changesElsewhere(away []journal.Unfinished) []model.Change {
	var changes []model.Change
	for _, o := range away {
		changes = append(changes, change(o, model.ChangeApplied, "left alone: it was made in another network namespace of this machine"))
	}
	return changes
}
