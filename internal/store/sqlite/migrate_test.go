package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ncruces/go-sqlite3/driver"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/store"
	"linerate/internal/store/storetest"
)

// raw runs script in the database at path, bypassing the store.
func raw(t *testing.T, path, script string) {
	t.Helper()
	db := must.Get(driver.Open(path))(t)
	defer db.Close()
	must.Get(db.ExecContext(t.Context(), script))(t)
}

// TestSchema1 reads a file as the first release wrote it.
func TestSchema1(t *testing.T) {
	script := must.Get(os.ReadFile("testdata/schema1.sql"))(t)
	path := filepath.Join(t.TempDir(), "schema1.db")
	raw(t, path, string(script))
	s := must.Get(Open(t.Context(), path))(t)
	defer s.Close()
	storetest.Schema1(t, s)
}

func TestOpenRefuses(t *testing.T) {
	ours := func(t *testing.T, path string) {
		s := must.Get(Open(t.Context(), path))(t)
		must.Do(t, errors.Join(s.Close(), s.Close())) // Close is idempotent
	}
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		want error
		say  string
	}{
		{"newer tables", func(t *testing.T, path string) {
			ours(t, path)
			raw(t, path, "PRAGMA user_version = 99")
		}, store.ErrNewer, "its tables have version 99, this linerate knows 1"},
		{"foreign tables", func(t *testing.T, path string) { raw(t, path, "CREATE TABLE t (x)") }, store.ErrForeign, "not a store of linerate"},
		{"foreign application", func(t *testing.T, path string) { raw(t, path, "PRAGMA application_id = 1") }, store.ErrForeign, "not a store of linerate"},
		{"not SQLite", func(t *testing.T, path string) {
			must.Do(t, os.WriteFile(path, []byte(strings.Repeat("time,rate\n", 1000)), 0o600))
		}, store.ErrForeign, "or damaged"},
		{"folder", func(t *testing.T, path string) {
			must.Do(t, os.Mkdir(path, 0o700))
		}, nil, "results.db"},
		{"file as folder", func(*testing.T, string) {}, nil, "results.db"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "results.db")
			test.make(t, path)
			if test.name == "file as folder" {
				ours(t, path)
				path = filepath.Join(path, "inside.db")
			}
			s, err := Open(t.Context(), path)
			if err == nil {
				t.Fatal(errors.Join(errors.New("opened"), s.Close()))
			}
			must.True(t, test.want == nil || errors.Is(err, test.want), "%v: does not wrap %v", err, test.want)
			must.Contain(t, err.Error(), test.say, "%v", err)
		})
	}
}

// TestMigrateSteps demands that only missing steps run, in order, and that a failed step leaves
// everything unchanged.
func TestMigrateSteps(t *testing.T) {
	db := must.Get(driver.Open(Memory))(t)
	db.SetMaxOpenConns(1)
	defer db.Close()
	files := fstest.MapFS{
		"0001_a.sql": {Data: []byte("CREATE TABLE log (step INTEGER); INSERT INTO log VALUES (1)")},
		"0002_b.sql": {Data: []byte("INSERT INTO log VALUES (2)")},
		"README":     {Data: []byte("not a step")},
	}
	check := func(want string) {
		t.Helper()
		must.Equal(t, steps(t.Context(), t, db), want, "steps")
	}
	for range 2 {
		must.Do(t, migrate(t.Context(), db, files))
		check("1 2")
	}
	files["0003_c.sql"] = &fstest.MapFile{Data: []byte("INSERT INTO log VALUES (3)")}
	files["0004_d.sql"] = &fstest.MapFile{Data: []byte("INSERT INTO log VALUES (4); INSERT INTO nowhere VALUES (4)")}
	err := migrate(t.Context(), db, files)
	must.True(t, err != nil && strings.Contains(err.Error(), "0004_d.sql"), "error %v does not name the step", err)
	check("1 2")
	delete(files, "0004_d.sql")
	must.Do(t, migrate(t.Context(), db, files))
	check("1 2 3")
	delete(files, "0003_c.sql")
	must.Is(t, migrate(t.Context(), db, files), store.ErrNewer, "older build")
}

func steps(ctx context.Context, t *testing.T, db *sql.DB) string {
	t.Helper()
	tx := must.Get(db.BeginTx(ctx, nil))(t)
	defer func() { _ = tx.Rollback() }()
	var ran string
	must.Do(t, tx.QueryRowContext(ctx, "SELECT group_concat(step, ' ') FROM (SELECT step FROM log ORDER BY rowid)").Scan(&ran))
	return ran
}

// TestMigrationNames demands numbers without gaps, since the count is the version.
func TestMigrationNames(t *testing.T) {
	names := must.Get(fs.Glob(migrations(), "*.sql"))(t)
	must.Need(t, len(names) == store.Schema, "%v", names)
	for i, name := range names {
		want := []byte{'0', '0', '0' + byte((i+1)/10), '0' + byte((i+1)%10), '_'}
		must.True(t, strings.HasPrefix(name, string(want)), "%s: want prefix %s", name, want)
	}
}

// TestHourSize: six minutes at one second, of 57 samples each, take less than a tenth of the MB
// allowed for an hour, beside the 0.2 MB of the empty tables.
func TestHourSize(t *testing.T) {
	want := storetest.Seconds(rand.New(rand.NewPCG(12, 6)), 360)
	var bytes [2]int64 // without samples, and with them
	for i, samples := range [][]model.Sample{nil, want} {
		path := filepath.Join(t.TempDir(), "hour.db")
		s := must.Get(Open(t.Context(), path))(t)
		session := model.Session{ID: "hour"}
		err := s.CreateSession(t.Context(), session)
		if err == nil {
			err = s.AddRun(t.Context(), session.ID, model.Run{Number: 1}, samples, nil)
		}
		got, readErr := s.Samples(t.Context(), session.ID, 1)
		must.Do(t, errors.Join(err, readErr, s.Close()))
		must.True(t, slices.Equal(samples, got), "what is packed reads as something else")
		bytes[i] = must.Get(os.Stat(path))(t).Size()
	}
	t.Logf("%d samples: %d bytes, without any %d", len(want), bytes[1], bytes[0])
	must.True(t, bytes[1] <= bytes[0]+100_000 && bytes[1] > bytes[0], "%d samples: %d bytes, without any %d", len(want), bytes[1], bytes[0])
}
