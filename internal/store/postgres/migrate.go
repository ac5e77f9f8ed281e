package postgres

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"linerate/internal/store"
	"linerate/internal/store/tables"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrations() fs.FS { return tables.Migrations(migrationFiles, "migrations") }

//go:embed fleet/migrations/*.sql
var fleetFiles embed.FS

func fleetMigrations() fs.FS { return tables.Migrations(fleetFiles, "fleet/migrations") }

// migrate updates a schema to the newest version in files, which holds one file per version,
// sorted by name. All steps are one transaction under a lock of the server, so if two processes
// open a new database at once, the second finds the work done. A schema that is up to date is
// only read.
func migrate(ctx context.Context, db *sql.DB, schema string, files fs.FS) error {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return err
	}
	version, err := schemaVersion(ctx, schema, db.QueryRowContext)
	switch {
	case err != nil:
		return err
	case version > len(names):
		return fmt.Errorf("%w: its tables have version %d, this linerate knows %d", store.ErrNewer, version, len(names))
	case version == len(names):
		return nil
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after the commit
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, lockKey("migration")); err != nil {
		return err
	}
	if version, err = schemaVersion(ctx, schema, tx.QueryRowContext); err != nil || version >= len(names) {
		return err
	}
	if version == 0 {
		if _, err := tx.ExecContext(ctx, `CREATE SCHEMA `+schema+`; CREATE TABLE `+schema+`.version (version BIGINT NOT NULL); INSERT INTO `+schema+`.version VALUES (0)`); err != nil {
			return err
		}
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
	if _, err := tx.ExecContext(ctx, `UPDATE version SET version = $1`, len(names)); err != nil {
		return err
	}
	return tx.Commit()
}

// schemaVersion returns the version of the tables, 0 if there is no schema. It rejects a schema
// that linerate did not create.
func schemaVersion(ctx context.Context, schema string, row func(context.Context, string, ...any) *sql.Row) (version int, err error) {
	var there, ours bool
	// Reading the tables shows the current state; the to_reg… functions may show the state
	// before this transaction waited for the lock.
	err = row(ctx, `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1),
		EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'version')`, schema).Scan(&there, &ours)
	switch {
	case err != nil || !there:
		return 0, err
	case !ours:
		return 0, fmt.Errorf("%w: its schema %s has no table of versions", store.ErrForeign, schema)
	}
	// A view, a rule or a trigger would run its owner's code when linerate reads or writes.
	var foreign string
	err = row(ctx, `SELECT coalesce(min(c.relname), '') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1
		AND (c.relkind NOT IN ('r', 'i', 'S', 't') OR c.relhasrules OR EXISTS (SELECT 1 FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal))`, schema).Scan(&foreign)
	switch {
	case err != nil:
		return 0, err
	case foreign != "":
		return 0, fmt.Errorf("%w: %s.%.80s is a view, or has a rule or a trigger, which linerate does not make", store.ErrForeign, schema, foreign)
	}
	err = row(ctx, `SELECT version FROM `+schema+`.version`).Scan(&version)
	return version, err
}
