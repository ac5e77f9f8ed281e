package sqlite

import (
	"context"
	"fmt"

	"linerate/internal/store"
	"linerate/internal/store/tables"
)

// Snapshot writes the whole store, as of one moment, to a new file at path. Other processes may
// read and write the store meanwhile (sqlite.org/lang_vacuum.html section 3).
func (s *Store) Snapshot(ctx context.Context, path string) (err error) {
	defer tables.Rescue(&err)
	err = s.check(ctx, "quick_check")
	if err == nil {
		_, err = s.db.ExecContext(ctx, `VACUUM INTO ?`, path)
	}
	if err != nil {
		return fmt.Errorf("copy results to %s: %w", path, explain(err, path))
	}
	return nil
}

// Check reads the whole file and reports the damage that SQLite can detect. The error wraps
// store.ErrForeign.
func (s *Store) Check(ctx context.Context) (err error) {
	defer tables.Rescue(&err)
	return s.check(ctx, "integrity_check")
}

// check runs the pragma integrity_check or quick_check. Even quick_check finds a page that is
// used twice: copying such a file could fill the disk.
func (s *Store) check(ctx context.Context, pragma string) error {
	var verdict string
	err := s.db.QueryRowContext(ctx, `PRAGMA `+pragma+`(1)`).Scan(&verdict)
	if err == nil && verdict != "ok" {
		return fmt.Errorf("%w: %s", store.ErrForeign, verdict)
	}
	return explain(err, s.path)
}
