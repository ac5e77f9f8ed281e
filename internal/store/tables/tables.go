// Package tables reads and writes sessions in the tables that every SQL result store has. A
// Dialect covers the differences between databases; the migrations of each store create the
// tables.
//
//  1. CreateSession writes a session with its plan before the first run.
//  2. AddRun writes each run when it ends, with all its samples, in one
//     transaction: a crash loses only the current run.
//  3. UpdateSession writes the session's results at its end.
//  4. Session, Sessions and Samples read it all again.
package tables

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"sync/atomic"
	"time"

	"linerate/internal/core/model"
)

// Database is the part that is specific to a database.
type Database interface {
	// Explain wraps the matching error of package store, fs.ErrPermission or a context error
	// around a database error, and adds a hint.
	Explain(err error) error
	// IsDuplicate reports whether err is due to an existing key.
	IsDuplicate(err error) bool
	// Hold marks a session as running until Release or the end of the process. The error wraps
	// store.ErrRunning if another process has marked it.
	Hold(ctx context.Context, id string) error
	// Release unmarks a session. It is idempotent.
	Release(id string)
	// StateOf returns the true state of a session with a stored state: model.SessionStopped if
	// it is stored as running but no process runs it.
	StateOf(ctx context.Context, id string, stored model.SessionState) model.SessionState
	// Removed cleans up what the sessions with these IDs left outside the tables.
	Removed(ctx context.Context, ids []string)
}

// Dialect holds the differences between databases. Queries are written in SQL that SQLite and
// PostgreSQL share: parameters are $1, $2 … in the order of their first use.
type Dialect struct {
	Database
	Write, Read sql.TxOptions
	// Lock ends the query for a session to be changed, and prevents concurrent changes of it.
	Lock string
	// Escape and Plain convert a text to a form that the database accepts, and back; nil if it
	// accepts any text.
	Escape, Plain func(string) string
	// Greatest is the function that returns the largest of its arguments.
	Greatest string
	// Statement is the CPU time limit of this process for one statement; 0 is no limit.
	Statement time.Duration
	// Packed belongs to the archive that the store was unpacked from.
	Packed Packed
}

// ErrDriver reports that the database driver failed in the middle of its work.
var ErrDriver = errors.New("the database driver failed")

// Tables are the tables of an open database. They are safe for concurrent use.
type Tables struct {
	db      *sql.DB
	dialect Dialect
	broken  *atomic.Bool // the driver panicked, and may hold its connection forever
}

// New returns the tables of db, which must exist.
func New(db *sql.DB, d Dialect) Tables { return Tables{db: db, dialect: d, broken: new(atomic.Bool)} }

// tx is a transaction with its dialect.
type tx struct {
	sql     *sql.Tx
	dialect *Dialect
	budget  budget
}

// write runs f in one transaction that locks what it changes from its start, so that it never
// has to abort for another writer.
func (s *Tables) write(ctx context.Context, f func(tx *tx) error) error {
	return s.transact(ctx, s.dialect.Write, f)
}

// read runs f on one snapshot of the store.
func (s *Tables) read(ctx context.Context, f func(tx *tx) error) error {
	return s.transact(ctx, s.dialect.Read, f)
}

func (s *Tables) transact(ctx context.Context, o sql.TxOptions, f func(tx *tx) error) (err error) {
	if s.broken.Load() {
		return ErrDriver
	}
	defer func() {
		if p := recover(); p != nil {
			s.broken.Store(true)
			err = driverError(p)
		}
	}()
	t, err := s.db.BeginTx(ctx, &o)
	if err != nil {
		return s.dialect.Explain(err)
	}
	if err := f(&tx{sql: t, dialect: &s.dialect, budget: budget{packed: s.dialect.Packed}}); err != nil {
		// An error from ending it adds nothing: its context or the database (on a full disk)
		// has ended it, or it ends with its connection.
		_ = t.Rollback()
		return s.dialect.Explain(err)
	}
	if o.ReadOnly {
		err = t.Rollback()
		if errors.Is(err, sql.ErrTxDone) {
			err = nil
		}
		return s.dialect.Explain(err)
	}
	return s.dialect.Explain(t.Commit())
}

// Rescue turns a panic of the database driver into *err: the SQLite driver panics if its memory
// limit is exceeded. Call it with defer.
func Rescue(err *error) {
	if p := recover(); p != nil {
		*err = driverError(p)
	}
}

func driverError(p any) error { return fmt.Errorf("%w: %v", ErrDriver, p) }

// exec runs a statement that returns no rows.
func (t *tx) exec(ctx context.Context, query string, args ...any) error {
	return Limited(ctx, t.dialect.Statement, func(ctx context.Context) error {
		_, err := t.sql.ExecContext(ctx, query, t.bind(args)...)
		return err
	})
}

// row runs a query for one row and reads it.
type row func(into ...any) error

// Scan reads the row. It returns sql.ErrNoRows if the query has none.
func (r row) Scan(into ...any) error { return r(into...) }

// row returns a query for one row; its Scan runs it.
func (t *tx) row(ctx context.Context, query string, args ...any) row {
	return func(into ...any) error {
		n, err := queryAll(ctx, t, func(scan func(...any) error) (struct{}, error) { return struct{}{}, scan(into...) }, query, args...)
		if err == nil && len(n) == 0 {
			return sql.ErrNoRows
		}
		return err
	}
}

// bind converts arguments to types that every driver supports: nil, text, whole numbers,
// floats, booleans and bytes.
func (t *tx) bind(args []any) []any {
	for i, a := range args {
		v := reflect.ValueOf(a)
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				args[i] = nil
				continue
			}
			v = v.Elem()
		}
		switch {
		case v.Kind() == reflect.String && t.dialect.Escape != nil:
			args[i] = t.dialect.Escape(v.String())
		case v.Kind() == reflect.String:
			args[i] = v.String()
		case v.CanInt():
			args[i] = v.Int()
		case v.CanFloat():
			args[i] = v.Float()
		}
	}
	return args
}

// plain reverses Escape on texts that were read.
func (d *Dialect) plain(read []any) {
	if d.Plain == nil {
		return
	}
	for _, r := range read {
		if n, ok := r.(*sql.NullString); ok {
			n.String = d.Plain(n.String)
		} else if v := reflect.ValueOf(r).Elem(); v.Kind() == reflect.String {
			v.SetString(d.Plain(v.String()))
		}
	}
}

// Migrations returns an embedded folder of files: one numbered file per version of the tables.
func Migrations(files embed.FS, folder string) fs.FS {
	sub, err := fs.Sub(files, folder)
	if err != nil {
		panic(err) // the path is a constant
	}
	return sub
}
