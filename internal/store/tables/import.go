package tables

import (
	"context"
	"iter"

	"linerate/internal/core/model"
)

// Source is the store that sessions are copied from.
type Source interface {
	Pieces(ctx context.Context, ref string) iter.Seq2[Piece, error]
}

// Piece is one part of a session. First comes the session without its runs, then each run,
// followed by its samples in chunks.
type Piece struct {
	Session *model.Session
	Run     *model.Run
	Samples []model.Sample
}

// Import copies the sessions with these IDs and all their data in one transaction: all of them,
// or none. A session running there is stored as stopped. The error wraps fs.ErrExist if one
// exists here already.
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
	var session int64
	var samples adder
	for p, err := range from.Pieces(ctx, id) {
		switch {
		case err != nil:
		case p.Session != nil:
			if p.Session.State == model.SessionStopped {
				p.Session.State = model.SessionRunning // no process runs it here, so it reads as stopped
			}
			if session, err = insertSession(ctx, tx, p.Session); err == nil {
				err = insertChanges(ctx, tx, session, p.Session.Changes)
			}
		case p.Run != nil:
			samples = adder{}
			samples.run, err = insertRun(ctx, tx, session, *p.Run)
		default:
			err = samples.add(ctx, tx, p.Samples)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
