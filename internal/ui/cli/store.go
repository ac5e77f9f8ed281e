package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os/user"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"linerate/internal/app/target"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/tune"
	"linerate/internal/fault"
	"linerate/internal/store"
	"linerate/internal/store/postgres"
	"linerate/internal/store/sqlite"
	"linerate/internal/store/tables"
)

// results is the part of a result store that commands need.
type results interface {
	CreateSession(ctx context.Context, s model.Session) error
	UpdateSession(ctx context.Context, s model.Session) error
	AddRun(ctx context.Context, sessionID string, r model.Run, s []model.Sample, c []model.Change) error
	SetChanges(ctx context.Context, sessionID string, c []model.Change) error
	SetPlan(ctx context.Context, sessionID string, p model.Plan) error
	Session(ctx context.Context, ref string) (model.Session, error)
	Samples(ctx context.Context, ref string, run int) ([]model.Sample, error)
	Sessions(ctx context.Context, f store.Filter) ([]model.Item, error)
	Brief(ctx context.Context, id string) (model.Session, error)
	Values(ctx context.Context, id string) ([]model.Run, error)
	Remove(ctx context.Context, ids ...string) error
	SetNote(ctx context.Context, sessionID, note string) error
	Pieces(ctx context.Context, ref string) iter.Seq2[tables.Piece, error]
	Import(ctx context.Context, from tables.Source, ids []string) error
	Path() string
	Close() error
}

// inMemory is the path of a store that ends with its command.
const inMemory = sqlite.Memory

// openStore opens the results, and creates them on first use.
func (a *console) openStore(ctx context.Context) (results, error) {
	if postgres.IsAddress(a.db) && plain.Databases(a.db) != a.db {
		a.talk("the password in --db can be read by every user of this machine while linerate runs; keep it in ~/.pgpass, PGPASSWORD or LINERATE_DB")
	}
	return openStoreAt(ctx, a.storePath())
}

// readMemory is the memory of a command that reads a session before garbage is collected more
// often: 9,000 runs take 110 MB decoded, and as much again would otherwise be garbage.
const readMemory = 192 << 20

// openSession opens the results, and returns the session named by ref.
func (a *console) openSession(ctx context.Context, ref string) (st results, s model.Session, err error) {
	debug.SetMemoryLimit(readMemory)
	if st, err = a.openStore(ctx); err != nil {
		return nil, s, err
	}
	if s, err = find(ctx, st, ref); err != nil {
		_ = st.Close()
	}
	return st, s, err
}

// openProof is openSession, but of a search by tune it returns the session of its proof.
func (a *console) openProof(ctx context.Context, ref string) (st results, s model.Session, err error) {
	if st, s, err = a.openSession(ctx, ref); err == nil {
		if s, err = proofOf(ctx, st, s); err != nil {
			_ = st.Close()
		}
	}
	return st, s, err
}

// proofOf returns the session that proves the settings of s: of a search by tune the one that
// compared its result with what was, of others s itself.
func proofOf(ctx context.Context, st results, s model.Session) (model.Session, error) {
	r, searched, err := tune.Read(&s)
	if err != nil || !searched || r.Confirmation == "" {
		return s, err
	}
	return find(ctx, st, r.Confirmation)
}

// begin opens the results and both ends of a measurement; end closes them.
func (a *console) begin(ctx context.Context, near, far target.Target) (st results, e *target.Ends, end func(), err error) {
	if st, err = a.openStore(ctx); err != nil {
		return nil, nil, nil, err
	}
	if e, err = a.reach().Open(ctx, near, far); err != nil {
		_ = st.Close()
		return nil, nil, nil, err
	}
	return st, e, func() { e.Close(); _ = st.Close() }, nil
}

// openStoreAt is openStore for the file, or the database, at path.
func openStoreAt(ctx context.Context, path string) (results, error) {
	if path == "" {
		return nil, fault.WithKind(fault.Store, fault.WithHint(errors.New("there is no folder for results: neither HOME nor the system's list of users names one"),
			"set HOME, name a file with --db FILE, or keep nothing with --db :memory:"))
	}
	s, err := openResults(ctx, path)
	if err == nil {
		return s, nil
	}
	switch {
	case fault.HintOf(err) != "":
	case errors.Is(err, store.ErrFull), errors.Is(err, fs.ErrPermission): // the store says what to do
	case errors.Is(err, store.ErrNewer):
		err = fault.WithHint(err, "use the linerate that wrote it, or --db FILE for another place")
	default:
		err = fault.WithHint(err, "use --db FILE for another place, or --db :memory: to keep nothing")
	}
	return nil, fault.WithKind(fault.Store, err)
}

// openResults opens a database or a file.
func openResults(ctx context.Context, at string) (results, error) {
	if postgres.IsAddress(at) {
		return postgres.Open(ctx, at)
	}
	return sqlite.Open(ctx, at)
}

// storePath is --db, else $LINERATE_DB, else the user's data directory; "" if there is none. It
// is never the current folder by accident.
func (a *console) storePath() string {
	if a.db != "" {
		return a.db
	}
	if p := a.Getenv("LINERATE_DB"); p != "" {
		return p
	}
	below := func(folder string, more ...string) string {
		if !filepath.IsAbs(folder) { // the XDG Base Directory Specification 0.8 requires relative ones to be ignored
			return ""
		}
		return filepath.Join(append(append([]string{folder}, more...), "linerate", "linerate.db")...)
	}
	switch runtime.GOOS {
	case "windows":
		return cmp.Or(below(a.Getenv("LocalAppData")), below(a.home(), "AppData", "Local"))
	case "darwin":
		return below(a.home(), "Library", "Application Support")
	}
	return cmp.Or(below(a.Getenv("XDG_DATA_HOME")), below(a.home(), ".local", "share"))
}

// home returns the user's home folder.
func (a *console) home() string {
	home := a.Getenv("HOME")
	if u, err := user.Current(); home == "" && err == nil {
		home = u.HomeDir // as in a job of cron or a unit of systemd
	}
	return home
}

// find returns the session that a person names by its ID, the beginning of it, last, or last~N.
func find(ctx context.Context, st results, ref string) (model.Session, error) {
	s, err := st.Session(ctx, sessionRef(ref))
	var many *store.AmbiguousError
	switch {
	case errors.As(err, &many):
		err = many
	case errors.Is(err, store.ErrNotFound):
		err = fmt.Errorf("session %s: %w", ref, store.ErrNotFound)
		if all, lerr := st.Sessions(ctx, store.Filter{Limit: 1}); lerr == nil && len(all) == 0 {
			return s, fault.New(fault.Store, fmt.Errorf("%w: no session is stored yet", err),
				"the first one is made by: linerate test HOST; another store is named with --db FILE")
		}
	}
	return s, fault.New(fault.Store, err, "see linerate list")
}
