package sqlite

import (
	"context"
	"fmt"

	"linerate/internal/store"
	"linerate/internal/store/tables"
)

// Snapshot writes the whole store, as it is at one moment, to a new file at path. Others
// may read and write it meanwhile (sqlite.org/lang_vacuum.html section 3).
func (s *Store) Snapshot(ctx context.Context, path string) (err error) {
	defer tables.Rescue(&err)
	if _, err := s.db.ExecContext(ctx, `VACUUM INTO ?`, path); err != nil {
		return fmt.Errorf("copy results to %s: %w", path, explain(err, path))
	}
	return nil
}

// Check reads the whole file for what SQLite can know of its damage. The error wraps
// store.ErrForeign.
func (s *Store) Check(ctx context.Context) (err error) {
	defer tables.Rescue(&err)
	var verdict string
	err = s.db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&verdict)
	if err == nil && verdict != "ok" {
		return fmt.Errorf("%w: %s", store.ErrForeign, verdict)
	}
	return explain(err, s.path)
}
