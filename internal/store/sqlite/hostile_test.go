package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"linerate/internal/confined"
	"linerate/internal/core/model"
	"linerate/internal/core/packed"
	"linerate/internal/must"
	"linerate/internal/store"
	"linerate/internal/store/storetest"
	"linerate/internal/store/tables"
)

// Limits on memory and CPU time for reading hostile files. The attacks take several times as
// much, or never end.
const (
	hostileMemory = 768 << 20
	hostileCPU    = 60 // seconds
)

// hostile makes a store with one session, changes it by SQL as its author could with any tool,
// and returns its path. The query check must return a number above 0, which proves that the
// attack is in the file.
func hostile(t *testing.T, check string, statements ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hostile.db")
	s := must.Get(Open(t.Context(), path))(t)
	must.Do(t, s.CreateSession(t.Context(), model.Session{ID: "it", State: model.SessionDone}))
	must.Do(t, s.AddRun(t.Context(), "it", model.Run{Number: 1}, storetest.Samples().Example(1), []model.Change{{Run: 1}}))
	must.Do(t, s.Close())
	alter(t, path, statements...)
	db := must.Get(driver.Open(path))(t)
	defer db.Close()
	var n int
	err := db.QueryRowContext(t.Context(), check).Scan(&n)
	must.Need(t, err == nil && n >= 1, "the attack is not in the file: %d, %v", n, err)
	return path
}

// alter runs statements on a separate connection.
func alter(t *testing.T, path string, statements ...string) {
	t.Helper()
	db := must.Get(driver.Open(path))(t)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, text := range statements {
		must.Dof(t, must.Err(db.ExecContext(t.Context(), text)), "%.80s", text)
	}
}

// bigBlobs makes statements store blobs instead of texts, as a tool that ignores STRICT does:
// only this gives a value larger than all memory of the driver.
func bigBlobs(statement string) []string {
	return []string{
		`CREATE TABLE kept AS SELECT name, sql FROM sqlite_schema WHERE sql LIKE '%STRICT%'`,
		`PRAGMA writable_schema = ON`,
		`UPDATE sqlite_schema SET sql = replace(replace(sql, ') STRICT, WITHOUT', ') WITHOUT'), ') STRICT', ')')`,
		`PRAGMA writable_schema = RESET`,
		statement,
		`PRAGMA writable_schema = ON`,
		`UPDATE sqlite_schema SET sql = (SELECT k.sql FROM kept k WHERE k.name = sqlite_schema.name) WHERE name IN (SELECT name FROM kept)`,
		`PRAGMA writable_schema = RESET`,
		`DROP TABLE kept`,
	}
}

// TestHostileSchema: a schema other than this version's is refused before any of it runs.
func TestHostileSchema(t *testing.T) {
	const endless = `WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)`
	for name, c := range map[string]struct {
		statements []string
		says       string
	}{
		"trigger":          {[]string{`CREATE TRIGGER wipe AFTER INSERT ON runs BEGIN DELETE FROM sessions; END`}, "trigger wipe"},
		"view":             {[]string{`CREATE VIEW endless AS ` + endless + ` SELECT x FROM c`}, "view endless"},
		"view for a table": {[]string{`ALTER TABLE changes RENAME TO old`, `CREATE VIEW changes AS ` + endless + ` SELECT x AS session FROM c`}, "old"},
		"table":            {[]string{`CREATE TABLE more (x)`}, "table more"},
		"index":            {[]string{`CREATE INDEX slow ON runs (hex(document))`}, "index slow"},
		"column":           {[]string{`ALTER TABLE sessions ADD COLUMN big TEXT AS (hex(title))`}, "table sessions is not as"},
		"missing":          {[]string{`DROP TABLE changes`}, "changes"},
	} {
		t.Run(name, func(t *testing.T) {
			path := hostile(t, `SELECT count(*) FROM sqlite_schema`, c.statements...)
			for how, open := range map[string]func() (*Store, error){
				"open": func() (*Store, error) { return Open(t.Context(), path) }, "frozen": func() (*Store, error) { return OpenFrozen(t.Context(), path, 0) },
			} {
				s, err := open()
				must.True(t, errors.Is(err, store.ErrForeign) && strings.Contains(err.Error(), c.says), "%s: %v, want %q", how, err, c.says)
				if err == nil {
					_ = s.Close()
				}
			}
		})
	}
}

// TestAnalysed: SQLite's ANALYZE tables are not foreign objects.
func TestAnalysed(t *testing.T) {
	s := must.Get(Open(t.Context(), hostile(t, `SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_stat1'`, `ANALYZE`)))(t)
	must.OK(t, must.Err(s.Session(t.Context(), "it")))
	_ = s.Close()
}

// hostileValue is a value that no store of linerate holds.
type hostileValue struct{ name, statement, check string }

// TestHostileValues: values that take all memory give errors when they are read, in a process
// that could not hold them.
func TestHostileValues(t *testing.T) {
	readHostile(t, []hostileValue{
		{"title of 40 MB", `UPDATE sessions SET title = hex(zeroblob(20000000))`, `SELECT octet_length(title) = 40000000 FROM sessions`},
		{"hosts of nothing", `UPDATE sessions SET document = '{"hosts":[{"nics":[{}' || replace(hex(zeroblob(5000000)), '00', ',{}') || ']}]}'`, `SELECT octet_length(document) > 14000000 FROM sessions`},
	})
}

func readHostile(t *testing.T, values []hostileValue) {
	confined.Run(t, hostileMemory, hostileCPU, func(t *testing.T) {
		for _, v := range values {
			s, err := Open(t.Context(), hostile(t, v.check, bigBlobs(v.statement)...))
			if err != nil {
				t.Errorf("%s: it does not open: %v", v.name, err)
				continue
			}
			_, listErr := s.Sessions(t.Context(), store.Filter{})
			_, readErr := s.Session(t.Context(), "it")
			_, samplesErr := s.Samples(t.Context(), "it", 1)
			must.Is(t, errors.Join(listErr, readErr, samplesErr), tables.ErrTooLarge, "%s", v.name)
			must.OK(t, s.Close())
		}
	})
}

// TestManySmallObjects: a file of 400 kB with as many objects as allowed takes little memory,
// and one with more, or more in one list, is refused.
func TestManySmallObjects(t *testing.T) {
	confined.Run(t, 256<<20, hostileCPU, func(t *testing.T) {
		for _, c := range []struct {
			each, runs int
			want       error
		}{{9_900, 11, nil}, {9_900, 15, tables.ErrTooLarge}, {10_100, 1, tables.ErrTooLarge}} {
			path := hostile(t, `SELECT 1`, `UPDATE sessions SET document = '{"hosts":[{"nics":[{}' || replace(hex(zeroblob(9900)), '00', ',{}') || ']}]}'`,
				fmt.Sprintf(`WITH RECURSIVE c(x) AS (SELECT 2 UNION ALL SELECT x + 1 FROM c LIMIT %d) INSERT INTO runs (session, number, state, document, ends)
				SELECT 1, x, 'valid', '{}', '[{}' || replace(hex(zeroblob(%d)), '00', ',{}') || ']' FROM c`, c.runs, c.each))
			s := must.Get(Open(t.Context(), path))(t)
			must.Is(t, must.Err(s.Session(t.Context(), "it")), c.want, "%d runs of %d", c.runs, c.each)
			must.OK(t, s.Close())
		}
	})
}

// TestSampleCountIsNotTrusted: memory follows the samples that exist, not the count in a row.
func TestSampleCountIsNotTrusted(t *testing.T) {
	s := must.Get(Open(t.Context(), hostile(t, `SELECT count = 1 << 60 FROM sample_parts`, `UPDATE sample_parts SET count = 1 << 60`)))(t)
	got := must.Get(s.Samples(t.Context(), "it", 1))(t)
	must.True(t, len(got) == len(storetest.Samples().Example(1)), "%d samples", len(got))
	_ = s.Close()
}

// TestHostileSamples: a few kilobytes of packed samples that unpack to half a gigabyte are
// imported in parts, and never held at once.
func TestHostileSamples(t *testing.T) {
	confined.Run(t, 384<<20, hostileCPU, func(t *testing.T) {
		const parts = 80
		path := hostile(t, `SELECT 1`)
		db := must.Get(driver.Open(path))(t)
		full := packed.Pack(make([]model.Sample, packed.MaxSamples))
		for part := range parts {
			must.Get(db.ExecContext(t.Context(), `INSERT INTO sample_parts (run, part, count, packed) VALUES (1, ?, ?, ?)`, 10+part, packed.MaxSamples, full))(t)
		}
		must.Do(t, db.Close())
		from := must.Get(OpenFrozen(t.Context(), path, 0))(t)
		defer from.Close()
		to := must.Get(Open(t.Context(), filepath.Join(t.TempDir(), "to.db")))(t)
		defer to.Close()
		must.Do(t, to.Import(t.Context(), from, []string{"it"}))
		n := 0
		for p, err := range to.Pieces(t.Context(), "it") {
			must.Do(t, err)
			n += len(p.Samples)
		}
		must.True(t, n >= parts*packed.MaxSamples, "%d samples", n)
	})
}

// endless turns the b-tree of a table in the file at path into one of 19 levels, in which each
// page names the page below hundreds of times: a file of a few pages with astronomically many
// rows. SQLite stops at 20 levels (BTCURSOR_MAX_DEPTH of btreeInt.h).
func endless(t *testing.T, path, table string) {
	t.Helper()
	const page, levels = 4096, 17
	db := must.Get(driver.Open(path))(t)
	root := 1
	if table != "sqlite_schema" {
		must.Do(t, db.QueryRowContext(t.Context(), `SELECT rootpage FROM sqlite_schema WHERE name = ?`, table).Scan(&root))
	}
	must.Get(db.ExecContext(t.Context(), `PRAGMA journal_mode = DELETE`))(t)
	must.Do(t, db.Close())
	b := must.Get(os.ReadFile(path))(t)
	at, begins := b[(root-1)*page:root*page], 0
	leaf := bytes.Clone(at)
	if root == 1 { // behind the file's header, where offsets still count from the start
		begins = 100
		copy(leaf, at[begins:begins+8+2*int(binary.BigEndian.Uint16(at[begins+3:]))])
	}
	below := uint32(len(b)/page) + 1
	b = append(b, leaf...)
	inner := func(p []byte, begins int) { // sqlite.org/fileformat.html section 1.6
		const cells = 400
		p[begins] = 5 // an interior page of a table
		binary.BigEndian.PutUint16(p[begins+1:], 0)
		binary.BigEndian.PutUint16(p[begins+3:], cells)
		binary.BigEndian.PutUint16(p[begins+5:], page-8*cells)
		p[begins+7] = 0
		binary.BigEndian.PutUint32(p[begins+8:], below)
		for i := range cells {
			cell := page - 8*(i+1)
			binary.BigEndian.PutUint16(p[begins+12+2*i:], uint16(cell))
			binary.BigEndian.PutUint32(p[cell:], below)
			copy(p[cell+4:], []byte{0x81, 0x80, byte(0x80 | i>>7), byte(i & 0x7f)}) // a key
		}
	}
	for range levels {
		p := make([]byte, page)
		inner(p, 0)
		below = uint32(len(b)/page) + 1
		b = append(b, p...)
	}
	inner(b[(root-1)*page:root*page], begins)
	binary.BigEndian.PutUint32(b[28:], uint32(len(b)/page))
	must.Do(t, os.WriteFile(path, b, 0o600))
}

// TestEndlessRows: an error stops the reading of a table whose rows never end, and its copying.
func TestEndlessRows(t *testing.T) {
	confined.Run(t, hostileMemory, hostileCPU, func(t *testing.T) {
		for table, want := range map[string]error{"sqlite_schema": store.ErrForeign, "sessions": tables.ErrEndless, "runs": store.ErrForeign, "changes": store.ErrForeign, "sample_parts": store.ErrForeign} {
			path := hostile(t, `SELECT 1`)
			endless(t, path, table)
			s, err := open(t.Context(), path, path, time.Second, 0, configure, made, func(ctx context.Context, db *sql.DB) error { return migrate(ctx, db, migrations()) })
			if err == nil {
				_, listErr := s.Sessions(t.Context(), store.Filter{})
				_, readErr := s.Session(t.Context(), "it")
				_, samplesErr := s.Samples(t.Context(), "it", 1)
				err = errors.Join(listErr, readErr, samplesErr, s.Snapshot(t.Context(), path+".copy"))
				s.Removed(t.Context(), nil) // returns
				must.OK(t, s.Close())
			}
			must.Is(t, err, want, "%s", table)
		}
	})
}

// TestBusyMachine: a statement that waits hours for a processor does not count as a fault of
// the file.
func TestBusyMachine(t *testing.T) {
	path := hostile(t, `SELECT 1`)
	waits := 0
	synctest.Test(t, func(t *testing.T) {
		s, err := open(t.Context(), path, path, statementTime, 0, func(c *sqlite3.Conn) error {
			return errors.Join(configure(c), c.SetAuthorizer(func(sqlite3.AuthorizerActionCode, string, string, string, string) sqlite3.AuthorizerReturnCode {
				time.Sleep(time.Hour) // of the test's own clock
				waits++
				return sqlite3.AUTH_OK
			}))
		}, made, current)
		must.Do(t, err)
		defer s.Close()
		must.OK(t, must.Err(s.Session(t.Context(), "it")))
	})
	must.True(t, waits > 10, "only %d waits", waits)
}

// TestDriverPanic: a driver panic becomes an error of that call, and the next call does not
// hang.
func TestDriverPanic(t *testing.T) {
	path := hostile(t, `SELECT 1`, `UPDATE sessions SET document = hex(zeroblob(10000000))`)
	s := must.Get(Open(t.Context(), path))(t)
	conn := must.Get(s.db.Conn(t.Context()))(t)
	err := conn.Raw(func(c any) error {
		c.(driver.Conn).Raw().HardHeapLimit(10 << 20)
		return nil
	})
	must.Do(t, errors.Join(err, conn.Close()))
	for range 2 {
		must.Is(t, must.Err(s.Session(t.Context(), "it")), tables.ErrDriver)
	}
	err = s.Close()
	must.True(t, err == nil || errors.Is(err, sql.ErrConnDone), "%v", err)
}
