package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/packed"
	"linerate/internal/store"
)

// Session returns the session that ref names: an ID, the beginning of exactly
// one ID, "last", or "-1" for the newest, "-2" for the one before. Times are in
// UTC, and what was empty is nil. The error wraps store.ErrNotFound, or is a
// *store.AmbiguousError.
func (s *Tables) Session(ctx context.Context, ref string) (model.Session, error) {
	var sess model.Session
	err := s.read(ctx, func(tx *tx) error {
		pk, err := resolve(ctx, tx, ref)
		if err != nil {
			return err
		}
		sess, err = readSession(ctx, tx, pk, "hosts_json")
		if err != nil {
			return err
		}
		if sess.Runs, err = readRuns(ctx, tx, pk, "ends_json"); err != nil {
			return err
		}
		if sess.Changes, err = readChanges(ctx, tx, pk); err != nil {
			return err
		}
		sess.Verdicts, err = readVerdicts(ctx, tx, pk)
		return err
	})
	sess.State = s.dialect.StateOf(ctx, sess.ID, sess.State)
	return sess, s.wrap("read session", ref, err)
}

// Brief returns the session of exactly that ID with what a line about it needs:
// without hosts and changes, and with runs that hold their values and nothing of
// their ends. The error wraps store.ErrNotFound.
func (s *Tables) Brief(ctx context.Context, id string) (model.Session, error) {
	var sess model.Session
	err := s.read(ctx, func(tx *tx) error {
		pk, err := sessionKey(ctx, tx, id, "")
		if err != nil {
			return err
		}
		if sess, err = readSession(ctx, tx, pk, "'[]'"); err != nil {
			return err
		}
		if sess.Runs, err = readRuns(ctx, tx, pk, "'null'"); err != nil {
			return err
		}
		sess.Verdicts, err = readVerdicts(ctx, tx, pk)
		return err
	})
	sess.State = s.dialect.StateOf(ctx, sess.ID, sess.State)
	return sess, s.wrap("read session", id, err)
}

// Samples returns the samples of the run of that number of the session that
// ref names, in the order in which they were stored. The error wraps
// store.ErrNotFound where there is no such session or run.
func (s *Tables) Samples(ctx context.Context, ref string, runNumber int) (all []model.Sample, err error) {
	err = s.EachSamples(ctx, ref, runNumber, func(some []model.Sample) error {
		all = append(all, some...)
		return nil
	})
	return all, err
}

// EachSamples calls f with the samples that Samples returns, some at a time.
func (s *Tables) EachSamples(ctx context.Context, ref string, runNumber int, f func(some []model.Sample) error) error {
	err := s.read(ctx, func(tx *tx) error {
		session, err := resolve(ctx, tx, ref)
		if err != nil {
			return err
		}
		var run int64
		err = tx.row(ctx, `SELECT pk FROM runs WHERE session = $1 AND number = $2`, session, runNumber).Scan(&run)
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrNotFound
		} else if err != nil {
			return err
		}
		return eachSamples(ctx, tx, run, f)
	})
	return s.wrap(fmt.Sprintf("read samples of run %d of session", runNumber), ref, err)
}

// Sessions lists the sessions that f picks, newest first.
func (s *Tables) Sessions(ctx context.Context, f store.Filter) ([]store.Item, error) {
	since, limit := "", math.MaxInt32
	if !f.Since.IsZero() {
		since = timeText(f.Since)
	}
	stored := f.State
	switch { // what is stored as running is of one state or the other
	case f.State == model.SessionStopped:
		stored = model.SessionRunning
	case f.State != model.SessionRunning && f.Limit > 0 && f.Text == "":
		limit = f.Limit
	}
	var items []store.Item
	err := s.read(ctx, func(tx *tx) (err error) {
		if err := fits(ctx, tx, "sessions", "1 = 1", nil, "id", "kind", "title", "near", "far", "created", "ended", "state", "reason", "note"); err != nil {
			return err
		}
		items, err = queryAll(ctx, tx, scanItem, `SELECT id, kind, title, near, far, created, ended, state, reason, note, planned_runs,
			(SELECT count(*) FROM runs WHERE runs.session = sessions.pk AND runs.state = $1)
			FROM sessions WHERE ($2 = '' OR kind = $2) AND ($3 = '' OR state = $3) AND ($4 = '' OR far = $4)
			AND created >= $5 AND ($6 = '' OR replace(near, $6, '') <> near OR replace(far, $6, '') <> far) ORDER BY created DESC, id DESC LIMIT $7`,
			model.RunValid, f.Kind, stored, f.Far, since, f.Host, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	for i := range items {
		items[i].State = s.dialect.StateOf(ctx, items[i].ID, items[i].State)
	}
	if stored == model.SessionRunning {
		items = slices.DeleteFunc(items, func(i store.Item) bool { return i.State != f.State })
	}
	if f.Text != "" {
		items = slices.DeleteFunc(items, func(i store.Item) bool { return !i.Says(f.Text) })
	}
	if f.Limit > 0 {
		items = items[:min(f.Limit, len(items))]
	}
	return items, nil
}

// resolve returns the row of the session that ref names.
func resolve(ctx context.Context, tx *tx, ref string) (int64, error) {
	if n, ok := store.Recent(ref); ok {
		var pk int64
		err := tx.row(ctx, `SELECT pk FROM sessions ORDER BY created DESC, id DESC LIMIT 1 OFFSET $1`, n-1).Scan(&pk)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, store.ErrNotFound
		}
		return pk, err
	}
	pk, err := sessionKey(ctx, tx, ref, "")
	if !errors.Is(err, store.ErrNotFound) || ref == "" {
		return pk, err
	}
	ids, err := queryAll(ctx, tx, func(scan func(...any) error) (id string, err error) {
		err = scan(&id)
		return id, err
	}, `SELECT id FROM sessions WHERE substr(id, 1, length(CAST($1 AS TEXT))) = $1 ORDER BY created DESC, id DESC`, ref)
	switch {
	case err != nil:
		return 0, err
	case len(ids) == 0:
		return 0, store.ErrNotFound
	case len(ids) > 1:
		return 0, &store.AmbiguousError{Ref: ref, IDs: ids}
	}
	return sessionKey(ctx, tx, ids[0], "")
}

// readSession reads a row of sessions. hosts is the column of the hosts, or a text
// in its place.
func readSession(ctx context.Context, tx *tx, pk int64, hosts string) (model.Session, error) {
	var (
		sess                                                            model.Session
		created                                                         string
		ended                                                           sql.NullString
		wire, command, plan, known, found, plats, warning, noise, check string
	)
	if err := fits(ctx, tx, "sessions", "pk = $1", []any{pk}, "id", "kind", "title", "near", "far", "version", "created", "ended", "state", "reason", "wire_rate_json", "command_json",
		"plan_json", "hosts_json", "findings_json", "plateaus_json", "warnings_json", "noise_json", "check_json", "tuning_json", "note"); err != nil {
		return sess, err
	}
	err := tx.row(ctx, `SELECT id, kind, title, near, far, version, created, ended, state, reason,
		wire_rate_json, command_json, plan_json, `+hosts+`, findings_json, plateaus_json, warnings_json, noise_json, check_json, tuning_json, note
		FROM sessions WHERE pk = $1`, pk).Scan(&sess.ID, &sess.Kind, &sess.Title, &sess.Near, &sess.Far, &sess.Version,
		&created, &ended, &sess.State, &sess.Reason, &wire, &command, &plan, &known, &found, &plats, &warning, &noise, &check, &sess.Tuning, &sess.Note)
	if err != nil {
		return sess, err
	}
	d := decoder{budget: &tx.budget}
	sess.Created, sess.Ended = d.time(created), d.time(ended.String)
	d.json(wire, &sess.WireRate)
	d.json(command, &sess.Command)
	d.json(plan, &sess.Plan)
	d.json(known, &sess.Hosts)
	d.json(found, &sess.Findings)
	d.json(plats, &sess.Plateaus)
	d.json(warning, &sess.Warnings)
	d.json(noise, &sess.Noise)
	d.json(check, &sess.Check)
	return sess, d.err
}

// readRuns returns the runs of a session by number, each with its values. ends is the
// column of their ends, or a text in its place.
func readRuns(ctx context.Context, tx *tx, session int64, ends string) ([]model.Run, error) {
	if err := fits(ctx, tx, "runs", "session = $1", []any{session}, "setting", "started", "ended", "state", "reason", "flow_json", "ends_json", "warnings_json"); err != nil {
		return nil, err
	}
	runs, err := queryAll(ctx, tx, func(scan func(...any) error) (model.Run, error) { return scanRun(&tx.budget, scan) }, `SELECT number, block, attempt, position, setting, started, ended, state,
		reason, lost_contact, flow_json, `+ends+`, warnings_json FROM runs WHERE session = $1 ORDER BY number`, session)
	if err != nil {
		return nil, err
	}
	if err := fits(ctx, tx, "run_values", "run IN (SELECT pk FROM runs WHERE session = $1)", []any{session}, "direction", "metric"); err != nil {
		return nil, err
	}
	type numbered struct {
		run   int
		value model.Value
	}
	values, err := queryAll(ctx, tx, func(scan func(...any) error) (v numbered, err error) {
		var x sql.NullFloat64
		err = scan(&v.run, &v.value.Direction, &v.value.Metric, &x)
		v.value.Value = number(x)
		return v, err
	}, `SELECT runs.number, v.direction, v.metric, v.value FROM run_values v JOIN runs ON runs.pk = v.run
		WHERE runs.session = $1 ORDER BY runs.number, v.seq`, session)
	if err != nil {
		return nil, err
	}
	i := 0
	for _, v := range values {
		for i < len(runs) && runs[i].Number != v.run {
			i++
		}
		if i == len(runs) {
			return nil, fmt.Errorf("%w: run %d has values and is not there", store.ErrForeign, v.run)
		}
		runs[i].Values = append(runs[i].Values, v.value)
	}
	return runs, nil
}

func scanRun(b *budget, scan func(...any) error) (r model.Run, err error) {
	var (
		started, ended      sql.NullString
		flow, ends, warning string
	)
	err = scan(&r.Number, &r.Block, &r.Attempt, &r.Position, &r.Setting, &started, &ended, &r.State,
		&r.Reason, &r.LostContact, &flow, &ends, &warning)
	if err != nil {
		return r, err
	}
	d := decoder{budget: b}
	r.Started, r.Ended = d.time(started.String), d.time(ended.String)
	d.json(flow, &r.Flow)
	d.json(ends, &r.Ends)
	d.json(warning, &r.Warnings)
	return r, d.err
}

func readChanges(ctx context.Context, tx *tx, session int64) ([]model.Change, error) {
	if err := fits(ctx, tx, "changes", "session = $1", []any{session}, "host", "knob", "native", "old_value", "new_value", "state", "detail"); err != nil {
		return nil, err
	}
	return queryAll(ctx, tx, func(scan func(...any) error) (c model.Change, err error) {
		err = scan(&c.Run, &c.Host, &c.Knob, &c.Native, &c.Old, &c.New, &c.State, &c.Detail)
		return c, err
	}, `SELECT run, host, knob, native, old_value, new_value, state, detail FROM changes WHERE session = $1 ORDER BY seq`, session)
}

func readVerdicts(ctx context.Context, tx *tx, session int64) ([]model.Verdict, error) {
	if err := fits(ctx, tx, "verdicts", "session = $1", []any{session}, "setting", "baseline", "direction", "metric", "outcome", "method", "family_json", "reason", "warnings_json", "guard_json"); err != nil {
		return nil, err
	}
	read := func(scan func(...any) error) (model.Verdict, error) { return scanVerdict(&tx.budget, scan) }
	return queryAll(ctx, tx, read, `SELECT setting, baseline, direction, metric, outcome, size, blocks, estimate,
		low, high, confidence, method, family_json, p, evidence, more_blocks, reason, is_twin, warnings_json, guard_json
		FROM verdicts WHERE session = $1 ORDER BY seq`, session)
}

func scanVerdict(b *budget, scan func(...any) error) (v model.Verdict, err error) {
	var (
		estimate, low, high sql.NullFloat64
		p, evidence         sql.Null[float64]
		family, guard       sql.NullString
		warning             string
	)
	err = scan(&v.Setting, &v.Baseline, &v.Direction, &v.Metric, &v.Outcome, &v.Size, &v.Blocks, &estimate, &low, &high,
		&v.Interval.Confidence, &v.Interval.Method, &family, &p, &evidence, &v.MoreBlocks, &v.Reason, &v.IsTwin, &warning, &guard)
	if err != nil {
		return v, err
	}
	v.Estimate = number(estimate)
	v.Interval.Low, v.Interval.High = model.Bound(math.Inf(-1)), model.Bound(math.Inf(1))
	if low.Valid {
		v.Interval.Low = model.Bound(low.Float64)
	}
	if high.Valid {
		v.Interval.High = model.Bound(high.Float64)
	}
	if p.Valid {
		v.P = &p.V
	}
	if evidence.Valid {
		v.Evidence = &evidence.V
	}
	d := decoder{budget: b}
	if family.Valid {
		d.json(family.String, &v.Family)
	}
	if guard.Valid {
		d.json(guard.String, &v.Guard)
	}
	d.json(warning, &v.Warnings)
	return v, d.err
}

// eachSamples calls f with the samples of a run, some at a time, in the order in which
// they were stored.
func eachSamples(ctx context.Context, tx *tx, run int64, f func(some []model.Sample) error) error {
	if err := fits(ctx, tx, "sample_parts", "run = $1", []any{run}, "packed"); err != nil {
		return err
	}
	parts, err := queryAll(ctx, tx, func(scan func(...any) error) (part int64, err error) {
		err = scan(&part)
		return part, err
	}, `SELECT part FROM sample_parts WHERE run = $1 ORDER BY part`, run)
	if err != nil {
		return err
	}
	total := 0
	for _, part := range parts {
		var b []byte
		if err := tx.row(ctx, `SELECT packed FROM sample_parts WHERE run = $1 AND part = $2`, run, part).Scan(&b); err != nil {
			return err
		}
		some, err := packed.Unpack(b, packed.MaxSamples)
		if err != nil {
			return err
		}
		if total += len(some); total > MaxSamples {
			return fmt.Errorf("%w: a run has more than %d samples", ErrTooLarge, MaxSamples)
		}
		if err := f(some); err != nil {
			return err
		}
	}
	return nil
}

func scanItem(scan func(...any) error) (it store.Item, err error) {
	var (
		created string
		ended   sql.NullString
	)
	err = scan(&it.ID, &it.Kind, &it.Title, &it.Near, &it.Far, &created, &ended, &it.State, &it.Reason, &it.Note, &it.MaxRuns, &it.Runs)
	if err != nil {
		return it, err
	}
	var d decoder
	it.Created, it.Ended = d.time(created), d.time(ended.String)
	return it, d.err
}

// queryAll returns all rows of a query, each made by read. A server may send more than
// fits counted: rows and bytes are bounded here too.
func queryAll[T any](ctx context.Context, tx *tx, read func(scan func(...any) error) (T, error), query string, args ...any) (all []T, err error) {
	return all, tx.bounded(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		rows, err := tx.sql.QueryContext(ctx, query, tx.bind(args)...)
		if err != nil {
			return err
		}
		defer func() {
			if err != nil {
				cancel() // else Close would read the rest first
				_ = rows.Close()
				return
			}
			err = rows.Close()
		}()
		size := 0
		scan := func(into ...any) error {
			if err := rows.Scan(into...); err != nil {
				return err
			}
			if size += textBytes(into); size > maxTexts {
				return fmt.Errorf("%w: rows of more than %d bytes", ErrTooLarge, maxTexts)
			}
			tx.dialect.plain(into)
			return nil
		}
		for rows.Next() {
			v, err := read(scan)
			if err != nil {
				return err
			}
			if all = append(all, v); len(all) > maxRows {
				return fmt.Errorf("%w: more than %d rows", ErrTooLarge, maxRows)
			}
		}
		return rows.Err()
	})
}

// decoder reads texts of the store and keeps the first error.
type decoder struct {
	budget *budget
	err    error
}

func (d *decoder) json(text string, into any) {
	if d.err != nil {
		return
	}
	if d.err = d.budget.take(text); d.err != nil {
		return
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(into); err != nil && d.err == nil {
		d.err = fmt.Errorf("stored JSON: %w", err)
	}
}

// time reads a time; "" is the zero time.
func (d *decoder) time(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("stored time: %w", err)
	}
	return t.UTC()
}

// number reads a number; NULL is not a number.
func number(v sql.NullFloat64) float64 {
	if !v.Valid {
		return math.NaN()
	}
	return v.Float64
}
