package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/store"
)

// A session counts as running while a process holds its lock: an advisory lock of the server
// ("Advisory Locks", section 13.3.5 of the PostgreSQL manual), which ends with the connection
// that took it, however the process ends.

// lockWait limits requests for locks, none of which waits for a lock.
const lockWait = 20 * time.Second

// held are the locks of the sessions that run in this process, all of one connection. The zero
// value holds none.
type held struct {
	mu   sync.Mutex
	conn *sql.Conn
	ids  map[string]bool
}

// lockKey returns the number of the lock for a name.
func lockKey(name string) int64 {
	sum := sha256.Sum256([]byte("linerate " + name))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

func sessionLock(id string) int64 { return lockKey("session " + id) }

// Hold implements tables.Database. If the connection of the locks has broken, it takes all of
// its locks again.
func (s *Store) Hold(ctx context.Context, id string) error {
	// A context that ends in the middle would close the connection, with all its locks.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockWait)
	defer cancel()
	r := &s.running
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil && r.conn.PingContext(ctx) != nil {
		_ = r.conn.Close()
		r.conn = nil
	}
	missing := []string{id}
	if r.conn == nil {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return s.Explain(err)
		}
		r.conn = conn
		for other := range r.ids {
			if other != id {
				missing = append(missing, other)
			}
		}
	} else if r.ids[id] {
		return nil
	}
	for _, one := range missing {
		var got bool
		if err := r.conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, sessionLock(one)).Scan(&got); err != nil {
			return fmt.Errorf("lock: %w", s.Explain(err))
		}
		if !got && one == id {
			return store.ErrRunning
		}
		if r.ids == nil {
			r.ids = map[string]bool{}
		}
		r.ids[one] = got
	}
	return nil
}

// Release implements tables.Database.
func (s *Store) Release(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	r := &s.running
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ids[id] {
		return
	}
	delete(r.ids, id)
	if r.conn == nil {
		return
	}
	_, err := r.conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, sessionLock(id))
	if err != nil || len(r.ids) == 0 { // closing the connection releases its locks
		_ = r.conn.Close()
		r.conn = nil
	}
}

// releaseAll releases every session of this process.
func (s *Store) releaseAll() {
	s.running.mu.Lock()
	ids := slices.Collect(maps.Keys(s.running.ids))
	s.running.mu.Unlock()
	for _, id := range ids {
		s.Release(id)
	}
}

// StateOf implements tables.Database. If the server does not answer, it returns the stored
// state.
func (s *Store) StateOf(ctx context.Context, id string, stored model.SessionState) model.SessionState {
	if stored != model.SessionRunning {
		return stored
	}
	s.running.mu.Lock()
	own := s.running.ids[id]
	s.running.mu.Unlock()
	if own {
		return stored
	}
	// This view shows the 64-bit number of a lock as two of 32 bits, with objsubid 1 (section
	// 54.12 of the PostgreSQL manual).
	key := uint64(sessionLock(id))
	var locked bool
	err := s.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND classid::bigint = $1 AND objid::bigint = $2 AND objsubid = 1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`,
		int64(key>>32), int64(key&0xffffffff)).Scan(&locked)
	if err != nil || locked {
		return stored
	}
	return model.SessionStopped
}
