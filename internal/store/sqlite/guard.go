package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"linerate/internal/store"
	"linerate/internal/store/tables"
)

// A foreign file may hold anything: triggers that run when linerate writes, endless views in
// place of tables, generated columns, values of any length (sqlite.org/security.html). The
// connection therefore refuses to run code that a schema could hide, and the schema itself has
// to be exactly the one that this version makes.

// maxMemory limits SQLite's memory for one connection; it needs a few MiB in addition to the
// one value that it reads or writes.
const maxMemory = 8 * tables.MaxValue

// maxStatement limits an SQL text in bytes, and so a statement of a schema.
const maxStatement = 1 << 20

// guard limits what a file can make a new connection do.
func guard(c *sqlite3.Conn) error {
	c.Limit(sqlite3.LIMIT_LENGTH, tables.MaxValue+1<<10)
	c.Limit(sqlite3.LIMIT_SQL_LENGTH, maxStatement)
	c.HardHeapLimit(maxMemory)
	for op, on := range map[sqlite3.DBConfig]bool{
		sqlite3.DBCONFIG_DEFENSIVE:      true,
		sqlite3.DBCONFIG_TRUSTED_SCHEMA: false,
		sqlite3.DBCONFIG_ENABLE_TRIGGER: false,
		sqlite3.DBCONFIG_ENABLE_VIEW:    false,
	} {
		if _, err := c.Config(op, on); err != nil {
			return err
		}
	}
	return c.Exec(`PRAGMA cell_size_check = ON`)
}

// objects returns every object of the schema of db, with the statement that made it. It fails
// if there are more than most, which limits what it reads.
func objects(ctx context.Context, db interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, most int) (all map[string]string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT IN ('sqlite_stat1', 'sqlite_stat4') LIMIT ?`, most+1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all = map[string]string{}
	for rows.Next() {
		var kind, name, table, text string
		if err := rows.Scan(&kind, &name, &table, &text); err != nil {
			return nil, err
		}
		all[kind+" "+name] = table + ": " + text
	}
	return all, rows.Err()
}

// made returns the objects of this version's schema, madeFleet those of a hub's.
var (
	made      = sync.OnceValues(func() (map[string]string, error) { return makes(migrations()) })
	madeFleet = sync.OnceValues(func() (map[string]string, error) { return makes(fleetMigrations()) })
)

// makes returns the objects that the migrations in files make.
func makes(files fs.FS) (map[string]string, error) {
	db, err := driver.Open(Memory, configure)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx := context.Background()
	if err := migrate(ctx, db, files); err != nil {
		return nil, err
	}
	return objects(ctx, db, 1000)
}

// current rejects a store of a different version.
func current(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // the transaction only reads
	version, err := schemaVersion(ctx, tx)
	if err != nil {
		return err
	}
	names, err := fs.Glob(migrations(), "*.sql")
	switch {
	case err != nil:
		return err
	case version > len(names):
		return fmt.Errorf("%w: its tables have version %d, this linerate knows %d", store.ErrNewer, version, len(names))
	case version < len(names):
		return fmt.Errorf("%w: its tables have version %d, this linerate reads %d", store.ErrForeign, version, len(names))
	}
	return nil
}

// checkSchema rejects a file whose schema is not the one that made returns. It ignores the statistics that
// ANALYZE keeps for SQLite. The error wraps store.ErrForeign.
func checkSchema(ctx context.Context, db *sql.DB, made func() (map[string]string, error)) error {
	want, err := made()
	if err != nil {
		return err
	}
	got, err := objects(ctx, db, len(want))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		switch text, ours := want[name]; {
		case !ours:
			return fmt.Errorf("%w: it holds the %.80s, which linerate does not make (if you added it, remove it: DROP %s)", store.ErrForeign, name, strings.ToUpper(strings.Fields(name + " ?")[0]))
		case text != got[name]:
			return fmt.Errorf("%w: its %.80s is not as linerate makes it", store.ErrForeign, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[name]; !ok {
			return fmt.Errorf("%w: its %s is missing", store.ErrForeign, name)
		}
	}
	return nil
}
