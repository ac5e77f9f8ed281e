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

// CreateSession stores sess, its plan, and the runs and changes that it has
// already (when it comes from elsewhere). The error wraps fs.ErrExist where a
// session of that ID is there, store.ErrFull where the disk is full.
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
			if _, err := insertRun(ctx, tx, pk, &sess.Runs[i]); err != nil {
				return err
			}
		}
		if err := insertChanges(ctx, tx, pk, sess.Changes); err != nil {
			return err
		}
		return insertVerdicts(ctx, tx, pk, sess.Verdicts)
	})
	return s.wrap("create session", sess.ID, err)
}

// UpdateSession replaces what the stored session of that ID says about itself:
// title, state, reason, end, hosts, wire rate, findings, verdicts, plateaus, what a
// check found, the course of a search and warnings. Its plan, runs and changes stay as
// they are: SetPlan, AddRun and SetChanges write those. The error wraps
// store.ErrNotFound where there is no such session, and store.ErrRunning where it is to
// run here and runs elsewhere.
func (s *Tables) UpdateSession(ctx context.Context, sess model.Session) error {
	if sess.State == model.SessionRunning {
		if err := s.dialect.Hold(ctx, sess.ID); err != nil {
			return s.wrap("update session", sess.ID, err)
		}
	}
	err := s.write(ctx, func(tx *tx) error {
		pk, err := sessionKey(ctx, tx, sess.ID, tx.dialect.Lock)
		if err != nil {
			return err
		}
		var j encoder
		args := []any{
			sess.Title, nullTime(sess.Ended), sess.State, sess.Reason, wireRate(&sess), j.text(sess.WireRate),
			j.text(sess.Hosts), j.text(sess.Findings), j.text(sess.Plateaus), j.text(sess.Warnings), j.text(sess.Noise), j.text(sess.Check), string(sess.Tuning), pk,
		}
		if j.err != nil {
			return j.err
		}
		err = tx.exec(ctx, `UPDATE sessions SET title = $1, ended = $2, state = $3, reason = $4,
			wire_rate = $5, wire_rate_json = $6, hosts_json = $7, findings_json = $8, plateaus_json = $9,
			warnings_json = $10, noise_json = $11, check_json = $12, tuning_json = $13 WHERE pk = $14`, args...)
		if err != nil {
			return err
		}
		if err := tx.exec(ctx, `DELETE FROM verdicts WHERE session = $1`, pk); err != nil {
			return err
		}
		return insertVerdicts(ctx, tx, pk, sess.Verdicts)
	})
	if err == nil && sess.State != model.SessionRunning {
		s.dialect.Release(sess.ID)
	}
	return s.wrap("update session", sess.ID, err)
}

// SetPlan replaces the plan of the session with that ID, for one that goes on longer
// than planned. The error wraps store.ErrNotFound where there is no such session.
func (s *Tables) SetPlan(ctx context.Context, sessionID string, p model.Plan) error {
	err := s.write(ctx, func(tx *tx) error {
		pk, err := sessionKey(ctx, tx, sessionID, tx.dialect.Lock)
		if err != nil {
			return err
		}
		var j encoder
		text := j.text(p)
		if j.err != nil {
			return j.err
		}
		err = tx.exec(ctx, `UPDATE sessions SET plan_json = $1, planned_runs = $2 WHERE pk = $3`, text, plannedRuns(&p), pk)
		return err
	})
	return s.wrap("store the plan of session", sessionID, err)
}

// AddRun stores a run of the session with that ID when it has ended, with all
// its samples, and appends the changes made for it, in one transaction. The
// error wraps store.ErrNotFound without such a session, fs.ErrExist where it
// has a run of that number, store.ErrFull where the disk is full; nothing of
// the run is stored then.
func (s *Tables) AddRun(ctx context.Context, sessionID string, run model.Run, samples []model.Sample, changes []model.Change) error {
	err := s.write(ctx, func(tx *tx) error {
		pk, err := sessionKey(ctx, tx, sessionID, tx.dialect.Lock)
		if err != nil {
			return err
		}
		key, err := insertRun(ctx, tx, pk, &run)
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

// SetChanges replaces all changes of the session with that ID, for what became
// of them after their runs. The error wraps store.ErrNotFound where there is
// no such session.
func (s *Tables) SetChanges(ctx context.Context, sessionID string, changes []model.Change) error {
	err := s.write(ctx, func(tx *tx) error {
		pk, err := sessionKey(ctx, tx, sessionID, tx.dialect.Lock)
		if err != nil {
			return err
		}
		if err := tx.exec(ctx, `DELETE FROM changes WHERE session = $1`, pk); err != nil {
			return err
		}
		return insertChanges(ctx, tx, pk, changes)
	})
	return s.wrap("store changes of session", sessionID, err)
}

// wrap says what was done to which session, and why it went wrong.
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

func insertSession(ctx context.Context, tx *tx, sess *model.Session) (pk int64, err error) {
	var j encoder
	args := []any{
		sess.ID, sess.Kind, sess.Title, sess.Near, sess.Far, sess.Version, timeText(sess.Created),
		nullTime(sess.Ended), sess.State, sess.Reason, plannedRuns(&sess.Plan), wireRate(sess),
		j.text(sess.WireRate), j.text(sess.Command), j.text(sess.Plan), j.text(sess.Hosts),
		j.text(sess.Findings), j.text(sess.Plateaus), j.text(sess.Warnings), j.text(sess.Noise), j.text(sess.Check), string(sess.Tuning), sess.Note,
	}
	if j.err != nil {
		return 0, j.err
	}
	err = tx.row(ctx, `INSERT INTO sessions (id, kind, title, near, far, version, created,
		ended, state, reason, planned_runs, wire_rate, wire_rate_json, command_json, plan_json, hosts_json,
		findings_json, plateaus_json, warnings_json, noise_json, check_json, tuning_json, note)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)
		RETURNING pk`, args...).Scan(&pk)
	return pk, err
}

// insertRun writes a run without its samples.
func insertRun(ctx context.Context, tx *tx, session int64, r *model.Run) (pk int64, err error) {
	var j encoder
	args := []any{
		session, r.Number, r.Block, r.Attempt, r.Position, r.Setting, r.Flow.Engine, r.Flow.Direction,
		nullTime(r.Started), nullTime(r.Ended), r.State, r.Reason, r.LostContact,
		j.text(r.Flow), j.text(r.Ends), j.text(r.Warnings),
	}
	if j.err != nil {
		return 0, j.err
	}
	err = tx.row(ctx, `INSERT INTO runs (session, number, block, attempt, position, setting,
		engine, direction, started, ended, state, reason, lost_contact, flow_json, ends_json, warnings_json)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
		RETURNING pk`, args...).Scan(&pk)
	if err != nil {
		return 0, err
	}
	return pk, insertAll(ctx, tx, `INSERT INTO run_values VALUES ($1, $2, $3, $4, $5)`, r.Values,
		func(i int, v *model.Value) []any {
			return []any{pk, i, v.Direction, v.Metric, nullNumber(v.Value)}
		})
}

// adder adds samples to a run that had none.
type adder struct {
	run  int64
	part int // the next one
}

// add packs some more samples, so many a part.
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

// insertChanges appends changes to those that the session has.
func insertChanges(ctx context.Context, tx *tx, session int64, changes []model.Change) error {
	var first int
	err := tx.row(ctx, `SELECT coalesce(max(seq) + 1, 0) FROM changes WHERE session = $1`, session).Scan(&first)
	if err != nil {
		return err
	}
	return insertAll(ctx, tx, `INSERT INTO changes VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, changes,
		func(i int, c *model.Change) []any {
			return []any{session, first + i, c.Run, c.Host, c.Knob, c.Native, c.Old, c.New, c.State, c.Detail}
		})
}

func insertVerdicts(ctx context.Context, tx *tx, session int64, verdicts []model.Verdict) error {
	var j encoder
	err := insertAll(ctx, tx, `INSERT INTO verdicts VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`,
		verdicts, func(i int, v *model.Verdict) []any {
			var family, guard any
			if v.Family != nil {
				family = j.text(v.Family)
			}
			if v.Guard != nil {
				guard = j.text(v.Guard)
			}
			return []any{
				session, i, v.Setting, v.Baseline, v.Direction, v.Metric, v.Outcome, v.Size, v.Blocks,
				nullNumber(v.Estimate), nullBound(v.Interval.Low), nullBound(v.Interval.High),
				v.Interval.Confidence, v.Interval.Method, family, v.P, v.Evidence, v.MoreBlocks, v.Reason,
				v.IsTwin, j.text(v.Warnings), guard,
			}
		})
	if err != nil {
		return err
	}
	return j.err
}

// insertAll runs one prepared INSERT for each item; args returns its values.
func insertAll[T any](ctx context.Context, tx *tx, query string, items []T, args func(i int, item *T) []any) (err error) {
	if len(items) == 0 {
		return nil
	}
	stmt, err := tx.sql.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() {
		if e := stmt.Close(); err == nil {
			err = e
		}
	}()
	for i := range items {
		if _, err := stmt.ExecContext(ctx, tx.bind(args(i, &items[i]))...); err != nil {
			return err
		}
	}
	return nil
}

// encoder turns values into JSON texts and keeps the first error.
type encoder struct{ err error }

func (e *encoder) text(v any) string {
	b, err := json.Marshal(v)
	if err != nil && e.err == nil {
		e.err = err
	}
	return string(b)
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

// nullNumber returns NULL for what is not a number, as SQLite would.
func nullNumber(v float64) any {
	if math.IsNaN(v) {
		return nil
	}
	return v
}

// nullBound returns NULL for an end that the data do not bound.
func nullBound(b model.Bound) any {
	if v := float64(b); !math.IsInf(v, 0) && !math.IsNaN(v) {
		return v
	}
	return nil
}

func wireRate(sess *model.Session) any {
	if r, ok := sess.WireRate.Get(); ok {
		return float64(r)
	}
	return nil
}

// plannedRuns returns how many runs the order of p and its tests hold.
func plannedRuns(p *model.Plan) int { return p.Runs() + len(p.Tests) }

// KeepNewest removes all sessions of kind but the newest keep, with all that belongs
// to them.
func (s *Tables) KeepNewest(ctx context.Context, kind model.Kind, keep int) error {
	err := s.write(ctx, func(tx *tx) error {
		err := tx.exec(ctx, `DELETE FROM sessions WHERE kind = $1 AND pk NOT IN
			(SELECT pk FROM sessions WHERE kind = $1 ORDER BY created DESC, id DESC LIMIT $2)`, kind, keep)
		return err
	})
	return s.wrap("forget sessions of kind", string(kind), err)
}

// SetNote replaces what a person wrote beside the session with that ID; "" removes it.
// The error wraps store.ErrNotFound where there is no such session.
func (s *Tables) SetNote(ctx context.Context, sessionID, note string) error {
	err := s.write(ctx, func(tx *tx) error {
		pk, err := sessionKey(ctx, tx, sessionID, tx.dialect.Lock)
		if err == nil {
			err = tx.exec(ctx, `UPDATE sessions SET note = $1 WHERE pk = $2`, note, pk)
		}
		return err
	})
	return s.wrap("annotate session", sessionID, err)
}

// Remove forgets sessions, by their whole IDs, with all that belongs to them, and
// gives the room back to the disk as far as others who use the store allow it. The
// error wraps store.ErrNotFound where one is not there; none is removed then.
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
