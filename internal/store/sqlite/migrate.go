package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"linerate/internal/store"
	"linerate/internal/store/tables"
)

// applicationID marks the file as linerate's, in SQLite's field for that
// (sqlite.org/fileformat.html section 1.3.17): "lnrt".
const applicationID = 0x6c6e7274

//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrations() fs.FS { return tables.Migrations(migrationFiles, "migrations") }

//go:embed fleet/migrations/*.sql
var fleetFiles embed.FS

func fleetMigrations() fs.FS { return tables.Migrations(fleetFiles, "fleet/migrations") }

// migrate updates the tables of db to the newest version in files, which holds one file per
// version, sorted by name. All steps and the check of the version are one transaction: if two
// processes open a new file at once, the second finds the work done.
func migrate(ctx context.Context, db *sql.DB, files fs.FS) error {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return err
	}
	if err := migrateTx(ctx, tx, files, names); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

func migrateTx(ctx context.Context, tx *sql.Tx, files fs.FS, names []string) error {
	version, err := schemaVersion(ctx, tx)
	if err != nil || version == len(names) {
		return err
	}
	if version > len(names) {
		return fmt.Errorf("%w: its tables have version %d, this linerate knows %d; use the newer linerate, or another file: --db PATH",
			store.ErrNewer, version, len(names))
	}
	for i, name := range names[version:] {
		script, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(script)); err != nil {
			return fmt.Errorf("migrate to version %d (%s): %w", version+i+1, name, err)
		}
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d", len(names), applicationID))
	return err
}

// schemaVersion returns the version of the tables, 0 for an empty file. It rejects a database
// that linerate did not create.
func schemaVersion(ctx context.Context, tx *sql.Tx) (int, error) {
	var version, application int
	var tables bool
	err := errors.Join(
		tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version),
		tx.QueryRowContext(ctx, "PRAGMA application_id").Scan(&application),
		tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM sqlite_schema)").Scan(&tables),
	)
	switch {
	case err != nil:
		return 0, err
	case application == applicationID, application == 0 && version == 0 && !tables:
		return version, nil
	}
	return 0, store.ErrForeign
}
