// Package postgres is the store that several people and machines share: a database of a
// PostgreSQL server, in which linerate has a schema of its own, called linerate.
//
// Open finds the server, makes the schema or brings it up to date, and package tables
// reads and writes it. While a session runs, its process holds an advisory lock of the
// server, which the server lets go of when the process is gone (running.go).
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/stdlib"

	"linerate/internal/fault"
	"linerate/internal/store/tables"
)

// schema is where the tables are.
const schema = "linerate"

// connectTimeout is how long a server may take to answer, unless the address says
// connect_timeout.
const connectTimeout = 10 * time.Second

// statementTimeout is how long the server may work on one statement, unless the address
// says statement_timeout.
const statementTimeout = 5 * time.Minute

// maxMessage bounds a message of the server in bytes, and so a row.
const maxMessage = 2 * tables.MaxValue

// connections is how many a process uses at most: one for the locks of its sessions, and
// some for what it reads and writes at once.
const connections = 5

// Store is an open database of sessions. It is safe for concurrent use.
type Store struct {
	tables.Tables
	db      *sql.DB
	at      string // for people: without the password
	running held
}

// IsAddress reports whether a text names a database of PostgreSQL, and not a file.
func IsAddress(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// Open opens the store at an address postgres://USER@HOST:PORT/DATABASE, with the
// parameters that libpq knows ("Connection URIs" of the PostgreSQL manual). What the
// address leaves out comes from PGHOST, PGUSER, PGPASSWORD and the like, and passwords
// from ~/.pgpass. No error holds a password; those that a person can do something about
// are *fault.Error, and wrap fs.ErrPermission, store.ErrFull, store.ErrNewer or
// store.ErrForeign where that is the cause.
func Open(ctx context.Context, address string) (*Store, error) {
	cfg, err := pgx.ParseConfig(address)
	if err != nil { // it may quote any part of the address, and so of a password
		return nil, fault.WithHint(errors.New("open results: the address of the database cannot be read"),
			"it is postgres://USER@HOST:PORT/DATABASE; keep the password out of it, in ~/.pgpass or PGPASSWORD")
	}
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, connectTimeout)
	cfg.RuntimeParams["search_path"] = schema
	cfg.RuntimeParams["application_name"] = cmp.Or(cfg.RuntimeParams["application_name"], "linerate")
	// Whatever the database holds in the place of our tables, no statement runs for ever.
	cfg.RuntimeParams["statement_timeout"] = cmp.Or(cfg.RuntimeParams["statement_timeout"], strconv.Itoa(int(statementTimeout.Milliseconds())))
	// The server finds out within a minute and a half that a host is gone which held a
	// lock (PostgreSQL manual, section 20.3.2); sockets of Unix have no use for it.
	cfg.RuntimeParams["tcp_keepalives_idle"] = "30"
	cfg.RuntimeParams["tcp_keepalives_interval"] = "10"
	cfg.RuntimeParams["tcp_keepalives_count"] = "6"
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		f.SetMaxBodyLen(maxMessage) // else a server has us take what it announces, up to 2 GiB
		return f
	}
	db := stdlib.OpenDB(*cfg)
	db.SetMaxOpenConns(connections)
	s := &Store{db: db, at: describe(cfg)}
	s.Tables = tables.New(db, tables.Dialect{
		Database: s, Write: sql.TxOptions{}, Read: sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
		Lock: " FOR UPDATE", Escape: escape, Plain: plain, Greatest: "greatest",
	})
	if err := migrate(ctx, db, migrations()); err != nil {
		err = s.Explain(err)
		if hint, ok := errors.AsType[*fault.Error](err); ok {
			return nil, errors.Join(fault.WithHint(fmt.Errorf("open results %s: %w", s.at, hint.Err), "%s", hint.Hint), db.Close())
		}
		return nil, errors.Join(fmt.Errorf("open results %s: %w", s.at, err), db.Close())
	}
	return s, nil
}

// describe returns the address that a configuration stands for, without its password.
func describe(cfg *pgx.ConnConfig) string {
	u := url.URL{Scheme: "postgres", User: url.User(cfg.User), Path: "/" + cfg.Database}
	if strings.HasPrefix(cfg.Host, "/") { // the folder of a socket
		u.RawQuery = "host=" + cfg.Host
		if cfg.Port != 5432 {
			u.RawQuery += "&port=" + strconv.Itoa(int(cfg.Port))
		}
	} else {
		u.Host = net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))
	}
	return u.String()
}

// Path returns the address of the database, without a password.
func (s *Store) Path() string { return s.at }

// Close ends the connections. It is idempotent.
func (s *Store) Close() error {
	s.releaseAll()
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close results %s: %w", s.at, err)
	}
	return nil
}

// Removed implements tables.Database: the server gives room back by itself.
func (s *Store) Removed(context.Context, []string) {}
