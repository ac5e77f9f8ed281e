// Package tables reads and writes sessions in the tables that every result store of SQL
// has. What databases differ in is a Dialect; the tables themselves are made by the
// migrations of each store.
//
//  1. CreateSession writes a session with its plan before the first run.
//  2. AddRun writes each run when it ends, with all its samples, in one
//     transaction: a crash loses the run under way and nothing else.
//  3. UpdateSession writes what the session says at its end.
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

// Database is what only the store of a database knows.
type Database interface {
	// Explain wraps the errors of package store, fs.ErrPermission and context's around
	// what the database said, and adds what to do.
	Explain(err error) error
	// IsDuplicate knows a row whose key is there already.
	IsDuplicate(err error) bool
	// Hold marks a session as running until Release or the end of the process. The
	// error wraps store.ErrRunning where another process has done so.
	Hold(ctx context.Context, id string) error
	// Release lets go of a session. It is idempotent.
	Release(id string)
	// StateOf returns what is true of a session that was stored in a state: that of
	// one which nobody runs any more is model.SessionStopped.
	StateOf(ctx context.Context, id string, stored model.SessionState) model.SessionState
	// Removed gives back what the sessions of these IDs left beside the tables.
	Removed(ctx context.Context, ids []string)
}

// Dialect is what databases differ in. Queries are written so that SQLite and
// PostgreSQL both know them: parameters are $1, $2 … in the order of their first use.
type Dialect struct {
	Database
	Write, Read sql.TxOptions
	// Lock ends the query that finds the session to be changed, so that nobody else
	// changes it in the same transaction.
	Lock string
	// Escape and Plain turn a text into one that the database keeps, and back; nil
	// where it keeps all.
	Escape, Plain func(string) string
	// Greatest is the function that returns the largest of its arguments.
	Greatest string
	// Statement is how much CPU time of this process one statement may take; 0 is no limit.
	Statement time.Duration
	// Packed is of an archive that the store was unpacked from.
	Packed Packed
}

// ErrDriver says that the driver of the database failed in the middle of its work.
var ErrDriver = errors.New("the database driver failed")

// Tables are those of an open database. They are safe for concurrent use.
type Tables struct {
	db      *sql.DB
	dialect Dialect
	broken  *atomic.Bool // the driver panicked, and may hold its connection for ever
}

// New returns the tables of db, which must be there.
func New(db *sql.DB, d Dialect) Tables { return Tables{db: db, dialect: d, broken: new(atomic.Bool)} }

// tx is a transaction that speaks a dialect.
type tx struct {
	sql     *sql.Tx
	dialect *Dialect
	budget  budget
}

// write runs f in one transaction that holds what it changes from its start, so that it
// never has to give up half-way for another writer.
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
		// An error in ending it adds nothing: it ended by its context, by the database
		// on a full disk, or will end with its connection.
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

// Rescue turns a panic of the database's driver into *err: the driver of SQLite panics
// if the memory that it may take is not enough. It is deferred.
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

// row returns a query for one row, which its Scan runs.
func (t *tx) row(ctx context.Context, query string, args ...any) row {
	return func(into ...any) error {
		n, err := queryAll(ctx, t, func(scan func(...any) error) (struct{}, error) { return struct{}{}, scan(into...) }, query, args...)
		if err == nil && len(n) == 0 {
			return sql.ErrNoRows
		}
		return err
	}
}

// bind turns arguments into what every driver knows: nil, text, whole numbers, numbers,
// truth values and bytes.
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

// plain turns texts that were read into what was written.
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

// Migrations returns the folder "migrations" of files, which a store embeds: one
// numbered file per version of its tables.
func Migrations(files embed.FS) fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the path is a constant
	}
	return sub
}
