package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"linerate/internal/core/model"
	"linerate/internal/store"
	"linerate/internal/store/tables"
)

// applicationID marks the file as ours, in the field that SQLite keeps for it
// (sqlite.org/fileformat.html section 1.3.17): "lnrt".
const applicationID = 0x6c6e7274

//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrations() fs.FS { return tables.Migrations(migrationFiles) }

// migrate brings the tables of db to the newest version in files, which holds
// one file per version, sorted by name. All steps are one transaction, and so
// is the look at the version: of two processes that open a new file at once,
// the second finds everything done.
func migrate(ctx context.Context, db *sql.DB, files fs.FS) error {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return err
	}
	packed, err := migrateTx(ctx, tx, files, names)
	if err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	if err := tx.Commit(); err != nil || !packed {
		return err
	}
	_, _ = db.ExecContext(ctx, `VACUUM`) // while others read it, or on a full disk, the file keeps its size
	return nil
}

// migrateTx reports whether it packed samples, which leaves most of the file empty.
func migrateTx(ctx context.Context, tx *sql.Tx, files fs.FS, names []string) (packed bool, err error) {
	version, err := schemaVersion(ctx, tx)
	if err != nil {
		return false, err
	}
	if version > len(names) {
		return false, fmt.Errorf("%w: its tables have version %d, this linerate knows %d; use the newer linerate, or another file: --db PATH",
			store.ErrNewer, version, len(names))
	}
	if version == len(names) {
		return false, nil
	}
	for i, name := range names[version:] {
		script, err := fs.ReadFile(files, name)
		if err != nil {
			return false, err
		}
		_, err = tx.ExecContext(ctx, string(script))
		if err == nil && name == packing {
			packed, err = version > 0, packSamples(ctx, tx)
		}
		if err != nil {
			return false, fmt.Errorf("migrate to version %d (%s): %w", version+i+1, name, err)
		}
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d", len(names), applicationID))
	return packed, err
}

// packing is the step that packs the samples of before.
const packing = "0008_packed.sql"

// packSamples moves the samples of each run, a row each until here, into its parts.
func packSamples(ctx context.Context, tx *sql.Tx) error {
	runs, err := all(ctx, tx, func(rows *sql.Rows) (run int64, err error) {
		err = rows.Scan(&run)
		return run, err
	}, `SELECT pk FROM runs ORDER BY pk`)
	if err != nil {
		return err
	}
	for _, run := range runs {
		samples, err := all(ctx, tx, func(rows *sql.Rows) (x model.Sample, err error) {
			var value sql.NullFloat64
			err = rows.Scan(&x.Host, &x.Direction, &x.Metric, &x.Start, &x.Length, &value, &x.Omitted, &x.Of)
			if x.Value = value.Float64; !value.Valid {
				x.Value = math.NaN()
			}
			return x, err
		}, `SELECT host, direction, metric, start_ns, length_ns, value, omitted, part FROM samples WHERE run = ? ORDER BY seq`, run)
		if err == nil {
			err = tables.AddSamples(ctx, tx, run, samples)
		}
		if err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `DROP TABLE samples`)
	return err
}

// all returns what read makes of each row of a query.
func all[T any](ctx context.Context, tx *sql.Tx, read func(*sql.Rows) (T, error), query string, args ...any) (out []T, err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := read(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, rows.Err()
}

// schemaVersion returns the version of the tables, 0 for an empty file. It
// refuses a database that somebody else made.
func schemaVersion(ctx context.Context, tx *sql.Tx) (int, error) {
	var version, application, tables int
	err := errors.Join(
		tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version),
		tx.QueryRowContext(ctx, "PRAGMA application_id").Scan(&application),
		tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables),
	)
	switch {
	case err != nil:
		return 0, err
	case application == applicationID, application == 0 && version == 0 && tables == 0:
		return version, nil
	}
	return 0, store.ErrForeign
}
