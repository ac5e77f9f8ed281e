// Package postgres is the store for several people and machines: a database of a PostgreSQL
// server, in which linerate has its own schema, called linerate.
//
// Open connects to the server and creates or updates the schema; package tables reads and
// writes it. While a session runs, its process holds an advisory lock of the server, which the
// server releases when the process ends (running.go).
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// Names of the schemas with the tables of sessions, and with those of a hub.
const (
	sessions = "linerate"
	fleet    = "linerate_fleet"
)

// connectTimeout is the default connection timeout, if the address has no connect_timeout.
const connectTimeout = 10 * time.Second

// statementTimeout is the server's default timeout for one statement, if the address has no
// statement_timeout.
const statementTimeout = 5 * time.Minute

// maxMessage limits a message of the server in bytes, and so a row.
const maxMessage = 2 * tables.MaxValue

// connections is the most connections of a process: one for the locks of its sessions, the rest
// for concurrent reads and writes.
const connections = 5

// Store is an open database of sessions. It is safe for concurrent use.
type Store struct {
	tables.Tables
	db      *sql.DB
	at      string // the address for display, without the password
	running held
}

// IsAddress reports whether a text is the address of a PostgreSQL database, not a file.
func IsAddress(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// Open opens the store at an address postgres://USER@HOST:PORT/DATABASE, with the parameters of
// libpq ("Connection URIs" of the PostgreSQL manual). Defaults come from PGHOST, PGUSER,
// PGPASSWORD and the like, and passwords from ~/.pgpass. No error contains a password; errors
// that the user can fix are *fault.Error, and wrap fs.ErrPermission, store.ErrFull,
// store.ErrNewer or store.ErrForeign if that is the cause.
func Open(ctx context.Context, address string) (*Store, error) {
	return open(ctx, address, sessions, migrations())
}

// Fleet is the open database of a hub.
type Fleet struct {
	tables.Fleet
	store *Store
}

// Close closes the connections. It is idempotent.
func (f *Fleet) Close() error { return f.store.Close() }

// OpenFleet is Open for the tables of a hub, which several hubs may share.
func OpenFleet(ctx context.Context, address string) (*Fleet, error) {
	s, err := open(ctx, address, fleet, fleetMigrations())
	if err != nil {
		return nil, err
	}
	return &Fleet{tables.NewFleet(s.Tables, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT`), s}, nil
}

// open opens the tables of a schema, which the scripts in files create.
func open(ctx context.Context, address, schema string, files fs.FS) (*Store, error) {
	cfg, err := pgx.ParseConfig(address)
	if err != nil { // the error may quote any part of the address, including a password
		return nil, fault.WithHint(errors.New("open results: the address of the database cannot be read"),
			"it is postgres://USER@HOST:PORT/DATABASE; keep the password out of it, in ~/.pgpass or PGPASSWORD")
	}
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, connectTimeout)
	cfg.RuntimeParams["search_path"] = schema
	cfg.RuntimeParams["application_name"] = cmp.Or(cfg.RuntimeParams["application_name"], "linerate")
	// No statement runs forever, whatever the database has instead of linerate's tables.
	cfg.RuntimeParams["statement_timeout"] = cmp.Or(cfg.RuntimeParams["statement_timeout"], strconv.Itoa(int(statementTimeout.Milliseconds())))
	// The server notices within a minute and a half that a host holding a lock is gone
	// (PostgreSQL manual, section 20.3.2); Unix sockets do not need this.
	cfg.RuntimeParams["tcp_keepalives_idle"] = "30"
	cfg.RuntimeParams["tcp_keepalives_interval"] = "10"
	cfg.RuntimeParams["tcp_keepalives_count"] = "6"
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		f.SetMaxBodyLen(maxMessage) // otherwise the client accepts the size that the server announces, up to 2 GiB
		return f
	}
	db := stdlib.OpenDB(*cfg)
	db.SetMaxOpenConns(connections)
	s := &Store{db: db, at: describe(cfg)}
	s.Tables = tables.New(db, tables.Dialect{
		Database: s, Write: sql.TxOptions{}, Read: sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
		Lock: " FOR UPDATE", Escape: escape, Plain: plain, Greatest: "greatest",
	})
	if err := migrate(ctx, db, schema, files); err != nil {
		err = s.Explain(err)
		if hint, ok := errors.AsType[*fault.Error](err); ok {
			return nil, errors.Join(fault.WithHint(fmt.Errorf("open results %s: %w", s.at, hint.Err), "%s", hint.Hint), db.Close())
		}
		return nil, errors.Join(fmt.Errorf("open results %s: %w", s.at, err), db.Close())
	}
	return s, nil
}

// describe returns the address of a configuration, without its password.
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

// Close closes the connections. It is idempotent.
func (s *Store) Close() error {
	s.releaseAll()
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close results %s: %w", s.at, err)
	}
	return nil
}

// Removed implements tables.Database: the server reclaims space by itself.
func (s *Store) Removed(context.Context, []string) {}
