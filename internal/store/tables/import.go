package tables

import (
	"context"
	"fmt"

	"linerate/internal/core/model"
)

// Source is where sessions come from: another store.
type Source interface {
	Session(ctx context.Context, ref string) (model.Session, error)
	EachSamples(ctx context.Context, ref string, run int, f func(some []model.Sample) error) error
}

// Import copies the sessions of these IDs, with all that belongs to them, in one
// transaction: all of them, or none. One that runs there is kept as stopped. The error
// wraps fs.ErrExist where one is here already.
func (s *Tables) Import(ctx context.Context, from Source, ids []string) error {
	at := ""
	err := s.write(ctx, func(tx *tx) error {
		for _, at = range ids {
			if err := importSession(ctx, tx, from, at); err != nil {
				return err
			}
		}
		return nil
	})
	return s.wrap("import session", at, err)
}

func importSession(ctx context.Context, tx *tx, from Source, id string) error {
	sess, err := from.Session(ctx, id)
	if err != nil {
		return err
	}
	if sess.State == model.SessionStopped {
		sess.State = model.SessionRunning // which nobody does here: it reads as stopped
	}
	pk, err := insertSession(ctx, tx, &sess)
	if err != nil {
		return err
	}
	for i := range sess.Runs {
		run, err := insertRun(ctx, tx, pk, sess.Runs[i])
		if err != nil {
			return err
		}
		add := adder{run: run}
		err = from.EachSamples(ctx, sess.ID, sess.Runs[i].Number, func(some []model.Sample) error { return add.add(ctx, tx, some) })
		if err != nil {
			return fmt.Errorf("samples of run %d: %w", sess.Runs[i].Number, err)
		}
	}
	return insertChanges(ctx, tx, pk, sess.Changes)
}
