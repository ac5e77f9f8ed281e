package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/packed"
	"linerate/internal/store"
)

// CreateSession stores sess, its plan, and the runs and changes that it already has (if it
// comes from elsewhere). The error wraps fs.ErrExist if a session with that ID exists,
// store.ErrFull if the disk is full.
func (s *Tables) CreateSession(ctx context.Context, sess model.Session) error {
	if sess.State == model.SessionRunning {
		if err := s.dialect.Hold(ctx, sess.ID); err != nil {
			return s.wrap("create session", sess.ID, err)
		}
	}
	err := s.write(ctx, func(tx *tx) error {
		pk, err := insertSession(ctx, tx, &sess)
		if err != nil {
			return err
		}
		for i := range sess.Runs {
			if _, err := insertRun(ctx, tx, pk, sess.Runs[i]); err != nil {
				return err
			}
		}
		return insertChanges(ctx, tx, pk, sess.Changes)
	})
	return s.wrap("create session", sess.ID, err)
}

// UpdateSession replaces the stored session with that ID, except for its plan, note, runs and
// changes: SetPlan, SetNote, AddRun and SetChanges write those. The error wraps
// store.ErrNotFound if there is no such session, and store.ErrRunning if sess is running but
// another process runs it.
func (s *Tables) UpdateSession(ctx context.Context, sess model.Session) error {
	if sess.State == model.SessionRunning {
		if err := s.dialect.Hold(ctx, sess.ID); err != nil {
			return s.wrap("update session", sess.ID, err)
		}
	}
	err := s.change(ctx, sess.ID, func(tx *tx, pk int64) error {
		columns, err := listed(&sess)
		if err != nil {
			return err
		}
		return tx.exec(ctx, `UPDATE sessions SET kind = $1, title = $2, near = $3, far = $4, created = $5, ended = $6,
			state = $7, reason = $8, document = $9 WHERE pk = $10`, append(columns, pk)...)
	})
	if err == nil && sess.State != model.SessionRunning {
		s.dialect.Release(sess.ID)
	}
	return s.wrap("update session", sess.ID, err)
}

// SetPlan replaces the plan of the session with that ID, to extend it beyond the plan. The
// error wraps store.ErrNotFound if there is no such session.
func (s *Tables) SetPlan(ctx context.Context, sessionID string, p model.Plan) error {
	err := s.change(ctx, sessionID, func(tx *tx, pk int64) error {
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		return tx.exec(ctx, `UPDATE sessions SET plan = $1, planned_runs = $2 WHERE pk = $3`, string(text), plannedRuns(&p), pk)
	})
	return s.wrap("store the plan of session", sessionID, err)
}

// AddRun stores a finished run of the session with that ID, with all its samples, and appends
// the changes made for it, in one transaction. It drops values of the run that are not finite.
// The error wraps store.ErrNotFound without such a session, fs.ErrExist if the session has a
// run with that number, store.ErrFull if the disk is full; nothing of the run is stored then.
func (s *Tables) AddRun(ctx context.Context, sessionID string, run model.Run, samples []model.Sample, changes []model.Change) error {
	err := s.change(ctx, sessionID, func(tx *tx, pk int64) error {
		key, err := insertRun(ctx, tx, pk, run)
		if err != nil {
			return err
		}
		samplesOf := adder{run: key}
		if err := samplesOf.add(ctx, tx, samples); err != nil {
			return err
		}
		return insertChanges(ctx, tx, pk, changes)
	})
	return s.wrap(fmt.Sprintf("store run %d of session", run.Number), sessionID, err)
}

// SetChanges replaces all changes of the session with that ID, to update their states after
// their runs. The error wraps store.ErrNotFound if there is no such session.
func (s *Tables) SetChanges(ctx context.Context, sessionID string, changes []model.Change) error {
	err := s.change(ctx, sessionID, func(tx *tx, pk int64) error {
		if err := tx.exec(ctx, `DELETE FROM changes WHERE session = $1`, pk); err != nil {
			return err
		}
		return insertChanges(ctx, tx, pk, changes)
	})
	return s.wrap("store changes of session", sessionID, err)
}

// change runs f in one transaction with the row of the session with exactly that ID.
func (s *Tables) change(ctx context.Context, id string, f func(tx *tx, pk int64) error) error {
	return s.write(ctx, func(tx *tx) error {
		pk, err := sessionKey(ctx, tx, id, tx.dialect.Lock)
		if err != nil {
			return err
		}
		return f(tx, pk)
	})
}

// wrap adds the operation and the session to an error.
func (s *Tables) wrap(operation, id string, err error) error {
	switch {
	case err == nil:
		return nil
	case s.dialect.IsDuplicate(err):
		return fmt.Errorf("%s %s: %w: %w", operation, id, fs.ErrExist, err)
	}
	return fmt.Errorf("%s %s: %w", operation, id, err)
}

// sessionKey returns the row of the session with exactly that ID; lock ends the query.
func sessionKey(ctx context.Context, tx *tx, id, lock string) (pk int64, err error) {
	err = tx.row(ctx, `SELECT pk FROM sessions WHERE id = $1`+lock, id).Scan(&pk)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, store.ErrNotFound
	}
	return pk, err
}

// listed returns the columns of sess that UpdateSession writes: those shown in lists, and the
// document.
func listed(sess *model.Session) ([]any, error) {
	document := *sess
	document.Plan, document.Note, document.Runs, document.Changes = model.Plan{}, "", nil, nil
	document.Created, document.Ended = sess.Created.UTC(), sess.Ended.UTC()
	text, err := json.Marshal(document)
	return []any{sess.Kind, sess.Title, sess.Near, sess.Far, timeText(sess.Created), nullTime(sess.Ended), sess.State, sess.Reason, string(text)}, err
}

func insertSession(ctx context.Context, tx *tx, sess *model.Session) (pk int64, err error) {
	columns, err := listed(sess)
	if err != nil {
		return 0, err
	}
	plan, err := json.Marshal(sess.Plan)
	if err != nil {
		return 0, err
	}
	err = tx.row(ctx, `INSERT INTO sessions (kind, title, near, far, created, ended, state, reason, document, id, note, planned_runs, plan)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING pk`,
		append(columns, sess.ID, sess.Note, plannedRuns(&sess.Plan), string(plan))...).Scan(&pk)
	return pk, err
}

// insertRun writes a run without its samples.
func insertRun(ctx context.Context, tx *tx, session int64, r model.Run) (pk int64, err error) {
	ends, err := json.Marshal(r.Ends)
	if err != nil {
		return 0, err
	}
	r.Ends, r.Started, r.Ended = nil, r.Started.UTC(), r.Ended.UTC()
	r.Values = slices.DeleteFunc(slices.Clone(r.Values), func(v model.Value) bool { return math.IsNaN(v.Value) || math.IsInf(v.Value, 0) })
	document, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	err = tx.row(ctx, `INSERT INTO runs (session, number, state, document, ends) VALUES ($1, $2, $3, $4, $5) RETURNING pk`,
		session, r.Number, r.State, string(document), string(ends)).Scan(&pk)
	return pk, err
}

// adder adds samples to a run that has none.
type adder struct {
	run  int64
	part int // the next one
}

// add packs further samples, in parts of at most packed.MaxSamples.
func (a *adder) add(ctx context.Context, tx *tx, samples []model.Sample) error {
	for some := range slices.Chunk(samples, packed.MaxSamples) {
		err := tx.exec(ctx, `INSERT INTO sample_parts (run, part, count, packed) VALUES ($1, $2, $3, $4)`, a.run, a.part, len(some), packed.Pack(some))
		if err != nil {
			return err
		}
		a.part++
	}
	return nil
}

// insertChanges appends changes to those of the session.
func insertChanges(ctx context.Context, tx *tx, session int64, changes []model.Change) error {
	if len(changes) == 0 {
		return nil
	}
	document, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	return tx.exec(ctx, `INSERT INTO changes (session, part, document)
		VALUES ($1, (SELECT coalesce(max(part) + 1, 0) FROM changes WHERE session = $1), $2)`, session, string(document))
}

// timeLayout is RFC 3339 with all nine decimals, so that texts sort by time.
const timeLayout = "2006-01-02T15:04:05.000000000Z07:00"

func timeText(t time.Time) string { return t.UTC().Format(timeLayout) }

// nullTime returns NULL for the zero time.
func nullTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return timeText(t)
}

// plannedRuns returns the number of runs in the order of p and its tests.
func plannedRuns(p *model.Plan) int { return p.Runs() + len(p.Tests) }

// KeepNewest removes all sessions of kind except the newest keep, with all their data.
func (s *Tables) KeepNewest(ctx context.Context, kind model.Kind, keep int) error {
	err := s.write(ctx, func(tx *tx) error {
		err := tx.exec(ctx, `DELETE FROM sessions WHERE kind = $1 AND pk NOT IN
			(SELECT pk FROM sessions WHERE kind = $1 ORDER BY created DESC, id DESC LIMIT $2)`, kind, keep)
		return err
	})
	return s.wrap("forget sessions of kind", string(kind), err)
}

// SetNote replaces the user's remark on the session with that ID; "" removes it. The error
// wraps store.ErrNotFound if there is no such session.
func (s *Tables) SetNote(ctx context.Context, sessionID, note string) error {
	err := s.change(ctx, sessionID, func(tx *tx, pk int64) error {
		return tx.exec(ctx, `UPDATE sessions SET note = $1 WHERE pk = $2`, note, pk)
	})
	return s.wrap("annotate session", sessionID, err)
}

// Remove deletes sessions, given by full ID, with all their data, and returns the space to the
// disk as far as other users of the store allow. The error wraps store.ErrNotFound if one does
// not exist; none is removed then.
func (s *Tables) Remove(ctx context.Context, ids ...string) error {
	at := ""
	err := s.write(ctx, func(tx *tx) error {
		for _, at = range ids {
			pk, err := sessionKey(ctx, tx, at, tx.dialect.Lock)
			if err != nil {
				return err
			}
			if err := tx.exec(ctx, `DELETE FROM sessions WHERE pk = $1`, pk); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return s.wrap("remove session", at, err)
	}
	s.dialect.Removed(ctx, ids)
	return nil
}
