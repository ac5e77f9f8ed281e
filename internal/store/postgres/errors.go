package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"linerate/internal/fault"
	"linerate/internal/store"
	"linerate/internal/store/tables"
)

// Error codes, from appendix A of the PostgreSQL manual.
const (
	uniqueViolation    = "23505"
	readOnly           = "25006"
	noAuthorization    = "28000"
	wrongPassword      = "28P01"
	noDatabase         = "3D000"
	noPrivilege        = "42501"
	diskFull           = "53100"
	tooManyConnections = "53300"
	cannotConnectNow   = "57P03"
	queryCanceled      = "57014"
)

// IsDuplicate implements tables.Database.
func (s *Store) IsDuplicate(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == uniqueViolation
}

// Explain implements tables.Database: it returns a *fault.Error for everything that the user
// can fix.
func (s *Store) Explain(err error) error {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	var hint *fault.Error
	switch {
	case err == nil, errors.As(err, &hint), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &pg):
		return s.explainCode(pg, err)
	case errors.As(err, &connect):
		return s.explainConnect(err)
	}
	return err
}

// explainCode translates an error code of the server.
func (s *Store) explainCode(pg *pgconn.PgError, err error) error {
	said := errors.New(pg.Message)
	hinted := func(hint string, cause error) error {
		return fault.WithHint(fmt.Errorf("%w: %w", cause, said), "%s", hint)
	}
	switch pg.Code {
	case diskFull:
		return hinted("free some on the server, or keep results elsewhere: --db PATH", store.ErrFull)
	case noPrivilege:
		return hinted("the owner of the database may let you: GRANT CREATE ON DATABASE, or, where linerate's schema is there, rights on it and its tables", fs.ErrPermission)
	case readOnly:
		return hinted("name the server that takes writes, not its copy", fs.ErrPermission)
	case wrongPassword, noAuthorization:
		return hinted("the password comes from ~/.pgpass or PGPASSWORD; who may connect from where is in the server's pg_hba.conf", fs.ErrPermission)
	case noDatabase:
		return fault.WithHint(said, "make it, as a user who may: createdb NAME; linerate makes its tables by itself")
	case queryCanceled:
		return hinted("statement_timeout=MILLISECONDS in the address gives it longer", tables.ErrEndless)
	case tooManyConnections, cannotConnectNow:
		return fault.WithHint(said, "try again in a moment")
	}
	return err
}

// explainConnect says why no server was reached, in one line and without the address.
func (s *Store) explainConnect(err error) error {
	var op *net.OpError
	var dns *net.DNSError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return fault.WithHint(fmt.Errorf("the server's certificate: %w", untrusted.Err), "name the authority that signed it: sslrootcert=FILE in the address")
	case strings.Contains(err.Error(), "refused TLS"): // pgconn has no error value for it
		return fault.WithHint(errors.New("the server has no TLS"), "turn ssl on in its postgresql.conf; on a network that you trust: sslmode=disable in the address")
	case errors.Is(err, context.DeadlineExceeded):
		return fault.WithHint(errors.New("no PostgreSQL answers there in time"), "is the server running, and open to this host (listen_addresses, firewall)?")
	case errors.As(err, &dns):
		return fault.WithHint(fmt.Errorf("its host is not known: %w", dns), "see the address behind --db or in LINERATE_DB")
	case errors.As(err, &op):
		return fault.WithHint(fmt.Errorf("no PostgreSQL answers there: %w", op.Err), "is the server running, and open to this host (listen_addresses, firewall)?")
	}
	return err
}
