package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/packed"
	"linerate/internal/store"
)

// Session returns the session that ref names: an ID, a unique prefix of an ID, "last" or "-1"
// for the newest, "-2" for the one before. Times are in UTC, and empty values are nil. The
// error wraps store.ErrNotFound, or is a *store.AmbiguousError.
func (s *Tables) Session(ctx context.Context, ref string) (model.Session, error) {
	var sess model.Session
	err := s.read(ctx, func(tx *tx) error {
		pk, err := resolve(ctx, tx, ref)
		if err != nil {
			return err
		}
		if sess, err = readSession(ctx, tx, pk); err != nil {
			return err
		}
		if sess.Runs, err = readRuns(ctx, tx, "ends", "session = $1", pk); err != nil {
			return err
		}
		sess.Changes, err = readChanges(ctx, tx, pk)
		return err
	})
	sess.State = s.dialect.StateOf(ctx, sess.ID, sess.State)
	return sess, s.wrap("read session", ref, err)
}

// Pieces reads the session that ref names, with its samples, as of one moment. It holds one run
// at a time: decoded, each histogram of a run takes 19 kB.
func (s *Tables) Pieces(ctx context.Context, ref string) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		enough := errors.New("the caller reads no further")
		err := s.read(ctx, func(tx *tx) error {
			return s.pieces(ctx, tx, ref, func(p Piece) error {
				if !yield(p, nil) {
					return enough
				}
				return nil
			})
		})
		if err != nil && !errors.Is(err, enough) {
			yield(Piece{}, s.wrap("read session", ref, err))
		}
	}
}

func (s *Tables) pieces(ctx context.Context, tx *tx, ref string, each func(Piece) error) error {
	pk, err := resolve(ctx, tx, ref)
	if err != nil {
		return err
	}
	sess, err := readSession(ctx, tx, pk)
	if err != nil {
		return err
	}
	if sess.Changes, err = readChanges(ctx, tx, pk); err != nil {
		return err
	}
	sess.State = s.dialect.StateOf(ctx, sess.ID, sess.State)
	if err := each(Piece{Session: &sess}); err != nil {
		return err
	}
	keys, err := queryAll(ctx, tx, scanKey, `SELECT pk FROM runs WHERE session = $1 ORDER BY number`, pk)
	if err != nil {
		return err
	}
	for _, key := range keys {
		runs, err := readRuns(ctx, tx, "ends", "pk = $1", key)
		if err != nil {
			return err
		}
		for i := range runs {
			if err := each(Piece{Run: &runs[i]}); err != nil {
				return err
			}
		}
		if err := eachSamples(ctx, tx, key, func(some []model.Sample) error { return each(Piece{Samples: some}) }); err != nil {
			return err
		}
	}
	return nil
}

// Brief returns the session with exactly that ID, reduced to the data for one line: without
// hosts and changes, and with runs that have values but no ends. The error wraps
// store.ErrNotFound.
func (s *Tables) Brief(ctx context.Context, id string) (model.Session, error) {
	var sess model.Session
	err := s.read(ctx, func(tx *tx) error {
		pk, err := sessionKey(ctx, tx, id, "")
		if err == nil {
			sess, err = readSession(ctx, tx, pk)
		}
		if err == nil {
			sess.Runs, err = readRuns(ctx, tx, "'null'", "session = $1", pk)
		}
		return err
	})
	sess.Hosts, sess.Changes, sess.State = nil, nil, s.dialect.StateOf(ctx, sess.ID, sess.State)
	return sess, s.wrap("read session", id, err)
}

// Values returns the runs of the session with exactly this ID, without their ends. The error
// wraps store.ErrNotFound.
func (s *Tables) Values(ctx context.Context, id string) (runs []model.Run, err error) {
	err = s.read(ctx, func(tx *tx) error {
		pk, err := sessionKey(ctx, tx, id, "")
		if err == nil {
			runs, err = readRuns(ctx, tx, "'null'", "session = $1", pk)
		}
		return err
	})
	return runs, s.wrap("read session", id, err)
}

// Samples returns the samples of run runNumber of the session that ref names, in the order of
// storing. The error wraps store.ErrNotFound if there is no such session or run.
func (s *Tables) Samples(ctx context.Context, ref string, runNumber int) (all []model.Sample, err error) {
	err = s.read(ctx, func(tx *tx) error {
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
		return eachSamples(ctx, tx, run, func(some []model.Sample) error {
			all = append(all, some...)
			return nil
		})
	})
	return all, s.wrap(fmt.Sprintf("read samples of run %d of session", runNumber), ref, err)
}

// Sessions lists the sessions that f selects, newest first.
func (s *Tables) Sessions(ctx context.Context, f store.Filter) ([]model.Item, error) {
	since, limit := "", math.MaxInt32
	if !f.Since.IsZero() {
		since = timeText(f.Since)
	}
	stored := f.State
	switch { // a session stored as running may be stopped
	case f.State == model.SessionStopped:
		stored = model.SessionRunning
	case f.State != model.SessionRunning && f.Limit > 0 && f.Text == "":
		limit = f.Limit
	}
	hidden := model.Kind("")
	if f.NoLooks {
		hidden = model.KindWatch
	}
	var items []model.Item
	err := s.read(ctx, func(tx *tx) (err error) {
		if err := fits(ctx, tx, "sessions", "1 = 1", nil, "id", "kind", "title", "near", "far", "created", "ended", "state", "reason", "note"); err != nil {
			return err
		}
		items, err = queryAll(ctx, tx, scanItem, `SELECT id, kind, title, near, far, created, ended, state, reason, note, planned_runs,
			(SELECT count(*) FROM runs WHERE runs.session = sessions.pk AND runs.state = $1)
			FROM sessions WHERE ($2 = '' OR kind = $2) AND ($3 = '' OR state = $3) AND ($4 = '' OR far = $4)
			AND created >= $5 AND ($6 = '' OR replace(near, $6, '') <> near OR replace(far, $6, '') <> far)
			AND ($7 = '' OR kind <> $7) ORDER BY created DESC, id DESC LIMIT $8`,
			model.RunValid, f.Kind, stored, f.Far, since, f.Host, hidden, limit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	for i := range items {
		items[i].State = s.dialect.StateOf(ctx, items[i].ID, items[i].State)
	}
	if stored == model.SessionRunning {
		items = slices.DeleteFunc(items, func(i model.Item) bool { return i.State != f.State })
	}
	if f.Text != "" {
		items = slices.DeleteFunc(items, func(i model.Item) bool { return !says(&i, f.Text) })
	}
	if f.Limit > 0 {
		items = items[:min(f.Limit, len(items))]
	}
	return items, nil
}

// says reports whether a list entry contains text, ignoring case.
func says(i *model.Item, text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc([]string{i.ID, i.Title, i.Note, i.Near, i.Far, i.Reason}, func(s string) bool {
		return strings.Contains(strings.ToLower(s), text)
	})
}

// resolve returns the row of the session that ref names.
func resolve(ctx context.Context, tx *tx, ref string) (int64, error) {
	if n, ok := store.Recent(ref); ok {
		var pk int64
		err := tx.row(ctx, `SELECT pk FROM sessions WHERE kind <> $1 ORDER BY created DESC, id DESC LIMIT 1 OFFSET $2`, model.KindWatch, n-1).Scan(&pk)
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

// readSession reads a session without its runs and changes.
func readSession(ctx context.Context, tx *tx, pk int64) (sess model.Session, err error) {
	if err := fits(ctx, tx, "sessions", "pk = $1", []any{pk}, "document", "plan", "note"); err != nil {
		return sess, err
	}
	var document, plan, note string
	if err := tx.row(ctx, `SELECT document, plan, note FROM sessions WHERE pk = $1`, pk).Scan(&document, &plan, &note); err != nil {
		return sess, err
	}
	d := decoder{budget: &tx.budget}
	d.json(document, &sess)
	sess.Plan = model.Plan{}
	d.json(plan, &sess.Plan)
	sess.Note = note
	return sess, d.err
}

// readRuns reads the runs that where selects by a key. ends is the column with their ends, or
// an expression in its place.
func readRuns(ctx context.Context, tx *tx, ends, where string, key int64) ([]model.Run, error) {
	if err := fits(ctx, tx, "runs", where, []any{key}, "document", "ends"); err != nil {
		return nil, err
	}
	return queryAll(ctx, tx, func(scan func(...any) error) (r model.Run, err error) {
		var document, ends string
		if err := scan(&document, &ends); err != nil {
			return r, err
		}
		d := decoder{budget: &tx.budget}
		d.json(document, &r)
		r.Ends = nil
		d.json(ends, &r.Ends)
		return r, d.err
	}, `SELECT document, `+ends+` FROM runs WHERE `+where+` ORDER BY number`, key)
}

func readChanges(ctx context.Context, tx *tx, session int64) (all []model.Change, err error) {
	if err := fits(ctx, tx, "changes", "session = $1", []any{session}, "document"); err != nil {
		return nil, err
	}
	parts, err := queryAll(ctx, tx, func(scan func(...any) error) (part []model.Change, err error) {
		var document string
		if err := scan(&document); err != nil {
			return nil, err
		}
		d := decoder{budget: &tx.budget}
		d.json(document, &part)
		return part, d.err
	}, `SELECT document FROM changes WHERE session = $1 ORDER BY part`, session)
	return slices.Concat(parts...), err
}

// eachSamples calls f with the samples of a run in chunks, in the order of storing.
func eachSamples(ctx context.Context, tx *tx, run int64, f func(some []model.Sample) error) error {
	if err := fits(ctx, tx, "sample_parts", "run = $1", []any{run}, "packed"); err != nil {
		return err
	}
	parts, err := queryAll(ctx, tx, scanKey, `SELECT part FROM sample_parts WHERE run = $1 ORDER BY part`, run)
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

func scanKey(scan func(...any) error) (key int64, err error) {
	err = scan(&key)
	return key, err
}

func scanItem(scan func(...any) error) (it model.Item, err error) {
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

// queryAll returns all rows of a query, each parsed by read. A server may send more than fits
// counted, so rows and bytes are limited here too.
func queryAll[T any](ctx context.Context, tx *tx, read func(scan func(...any) error) (T, error), query string, args ...any) (all []T, err error) {
	return all, Limited(ctx, tx.dialect.Statement, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		rows, err := tx.sql.QueryContext(ctx, query, tx.bind(args)...)
		if err != nil {
			return err
		}
		defer func() {
			if err != nil {
				cancel() // otherwise Close would first read the rest
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

// decoder parses texts of the store and keeps the first error.
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

// time parses a time; "" is the zero time.
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
