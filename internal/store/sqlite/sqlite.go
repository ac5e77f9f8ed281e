// Package sqlite is the store that needs no set-up: one SQLite file.
//
// Open creates the file, checks that it is linerate's, and updates its tables (migrations/,
// numbered); package tables reads and writes them.
//
// While a session runs, its process holds a lock beside the file, so that sessions of killed
// processes are recognised (running.go).
//
// Several processes may use one file at once. The tables are also meant for reading with SQL;
// migrations/0001_sessions.sql describes their columns. Only the samples are packed (package
// packed).
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"linerate/internal/store/tables"
)

// Memory is the path of a store that lives as long as the process.
const Memory = ":memory:"

// busyTimeout is how long a writer waits for another process. The longest
// transaction, one run's samples, takes well below a second.
const busyTimeout = 30 * time.Second

// statementTime is how much CPU time one statement may take. The longest of linerate's own,
// a list of 100,000 sessions, takes some seconds.
const statementTime = 90 * time.Second

// retryAfter is the pause before the next attempt on a file that another process is creating.
const retryAfter = 10 * time.Millisecond

// Store is an open store file. It is safe for concurrent use.
type Store struct {
	tables.Tables
	db      *sql.DB
	path    string
	running held
}

// Open opens the store at path, or one in memory for Memory, and creates it and its folders
// (for this user only) if they do not exist. Errors wrap fs.ErrPermission, store.ErrFull,
// store.ErrNewer or store.ErrForeign if that is the cause.
func Open(ctx context.Context, path string) (*Store, error) {
	if path != Memory {
		abs, err := touch(path)
		if err != nil {
			return nil, fmt.Errorf("open results %s: %w", path, explain(err, path))
		}
		path = abs
	}
	return open(ctx, path, path, statementTime, 0, configure, made, func(ctx context.Context, db *sql.DB) error { return migrate(ctx, db, migrations()) })
}

// Fleet is the open file of a hub.
type Fleet struct {
	tables.Fleet
	store *Store
}

// OpenFleet is Open for the file of a hub, which holds no sessions.
func OpenFleet(ctx context.Context, path string) (*Fleet, error) {
	if path != Memory {
		abs, err := touch(path)
		if err != nil {
			return nil, fmt.Errorf("open the hub's file %s: %w", path, explain(err, path))
		}
		path = abs
	}
	s, err := open(ctx, path, path, statementTime, 0, configure, madeFleet, func(ctx context.Context, db *sql.DB) error { return migrate(ctx, db, fleetMigrations()) })
	if err != nil {
		return nil, err
	}
	return &Fleet{tables.NewFleet(s.Tables, ""), s}, nil
}

// Close closes the file. It is idempotent.
func (f *Fleet) Close() error { return f.store.Close() }

// OpenFrozen opens the store at path, which must not change meanwhile, for reading only: it
// writes nothing, and ignores any other file beside it. packed is the length of the archive
// that it comes from. Errors wrap store.ErrNewer or store.ErrForeign if that is the cause.
func OpenFrozen(ctx context.Context, path string, packed tables.Packed) (*Store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	from := "file:" + (&url.URL{Path: filepath.ToSlash(abs)}).EscapedPath() + "?mode=ro&immutable=1"
	return open(ctx, abs, from, statementTime, packed, guard, made, current)
}

// open opens the database called name, in the file at path, whose tables prepare creates or
// checks, and whose schema is that of made. statement limits the CPU time of one statement, and of opening the file.
func open(ctx context.Context, path, name string, statement time.Duration, packed tables.Packed, set func(*sqlite3.Conn) error, made func() (map[string]string, error), prepare func(context.Context, *sql.DB) error) (s *Store, err error) {
	defer tables.Rescue(&err)
	db, err := driver.Open(name, set)
	if err != nil {
		return nil, fmt.Errorf("open results %s: %w", path, explain(err, path))
	}
	// One connection: SQLite has one writer anyway, calls are short, and a
	// second connection to memory would be a second, empty database.
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	s = &Store{db: db, path: path}
	s.Tables = tables.New(db, tables.Dialect{
		Database: s, Write: sql.TxOptions{Isolation: sql.LevelSerializable}, Read: sql.TxOptions{ReadOnly: true}, Greatest: "max", Statement: statement, Packed: packed,
	})
	err = tables.Limited(ctx, statement, func(ctx context.Context) error {
		if err := patiently(ctx, func() error { return prepare(ctx, db) }); err != nil {
			return err
		}
		return checkSchema(ctx, db, made)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open results %s: %w", path, explain(err, path)), db.Close())
	}
	return s, nil
}

// Path returns the absolute path of the file, or Memory.
func (s *Store) Path() string { return s.path }

// Close closes the file. It is idempotent.
func (s *Store) Close() error {
	s.releaseAll()
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close results %s: %w", s.path, explain(err, s.path))
	}
	return nil
}

// touch creates path and its folders and returns its absolute form. It gets the system's error
// before SQLite does, because SQLite keeps only a number of it.
func touch(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(abs), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	return abs, f.Close()
}

// configure sets up a new connection. WAL allows reading while another process writes
// (sqlite.org/wal.html); with synchronous FULL a committed run survives a power cut
// (sqlite.org/pragma.html#pragma_synchronous).
func configure(c *sqlite3.Conn) error {
	if err := guard(c); err != nil {
		return err
	}
	if err := c.BusyTimeout(busyTimeout); err != nil {
		return err
	}
	return c.Exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON`)
}

// patiently repeats f while another process holds the file. SQLite itself does not wait if two
// connections switch a new file to WAL at once: it fails with BUSY, whatever the timeout
// (sqlite.org/wal.html section 9).
func patiently(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	for {
		err := f()
		if !errors.Is(err, sqlite3.BUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryAfter):
		}
	}
}

// ignoreDone drops the error from ending a transaction that has already ended: by its context,
// or by SQLite itself on a full disk.
func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) || errors.Is(err, sqlite3.ERROR) {
		return nil
	}
	return err
}
