package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/ncruces/go-sqlite3"

	"linerate/internal/core/model"
	"linerate/internal/store"
	"linerate/internal/store/tables"
)

// A session counts as running while a process holds its lock: an exclusive lock of SQLite on an
// empty file beside the store, which the system releases however the process ends
// (sqlite.org/lockingv3.html). A stored state alone would stay forever after its controller was
// killed.

// held are the locks of the sessions that run in this process. The zero value holds none.
type held struct {
	mu    sync.Mutex
	locks map[string]*sqlite3.Conn // by the ID of the session
}

// lockFile returns the path of a session's lock.
func (s *Store) lockFile(id string) string {
	return filepath.Join(s.path+".running", url.PathEscape(id))
}

// tryLock takes the lock in a file; it returns nil if another process holds it.
func tryLock(file string, flags sqlite3.OpenFlag) (*sqlite3.Conn, error) {
	c, err := sqlite3.OpenFlags(file, flags)
	if err != nil {
		return nil, err
	}
	if err = c.BusyTimeout(0); err == nil {
		err = c.Exec(`BEGIN EXCLUSIVE`)
	}
	if err == nil {
		return c, nil
	}
	if busy := errors.Is(err, sqlite3.BUSY); busy {
		err = nil
	}
	return nil, errors.Join(err, c.Close())
}

// Hold implements tables.Database.
func (s *Store) Hold(_ context.Context, id string) error {
	s.running.mu.Lock()
	defer s.running.mu.Unlock()
	if s.path == Memory || s.running.locks[id] != nil {
		return nil
	}
	file := s.lockFile(id)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	c, err := tryLock(file, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		return fmt.Errorf("lock %s: %w", file, explain(err, file))
	}
	if c == nil {
		return store.ErrRunning
	}
	if s.running.locks == nil {
		s.running.locks = make(map[string]*sqlite3.Conn)
	}
	s.running.locks[id] = c
	return nil
}

// Release implements tables.Database.
func (s *Store) Release(id string) {
	s.running.mu.Lock()
	defer s.running.mu.Unlock()
	c := s.running.locks[id]
	if c == nil {
		return
	}
	delete(s.running.locks, id)
	// The system releases the lock in any case; a leftover file does no harm.
	_ = c.Close()
	_ = os.Remove(s.lockFile(id))
}

// releaseAll releases every session of this process.
func (s *Store) releaseAll() {
	s.running.mu.Lock()
	ids := slices.Collect(maps.Keys(s.running.locks))
	s.running.mu.Unlock()
	for _, id := range ids {
		s.Release(id)
	}
}

// StateOf implements tables.Database.
func (s *Store) StateOf(_ context.Context, id string, stored model.SessionState) model.SessionState {
	if stored != model.SessionRunning || s.path == Memory {
		return stored
	}
	s.running.mu.Lock()
	defer s.running.mu.Unlock()
	if s.running.locks[id] != nil {
		return stored
	}
	file := s.lockFile(id)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return model.SessionStopped
	}
	c, err := tryLock(file, sqlite3.OPEN_READWRITE)
	if err != nil || c == nil { // another user's lock cannot be checked: trust the stored state
		return stored
	}
	_ = c.Close()
	return model.SessionStopped
}

// Removed implements tables.Database: it removes the locks of killed processes, and shrinks the
// file.
func (s *Store) Removed(ctx context.Context, ids []string) {
	for _, id := range ids {
		_ = os.Remove(s.lockFile(id))
	}
	var err error
	defer tables.Rescue(&err)
	if err = s.check(ctx, "quick_check"); err == nil {
		_, _ = s.db.ExecContext(ctx, `VACUUM`) // while other processes read it, or on a full disk, the file keeps its size
	}
}
