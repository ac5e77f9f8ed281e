package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/ncruces/go-sqlite3/driver"

	"linerate/internal/core/model"
	"linerate/internal/store/storetest"
)

// version7 makes a file as the last version with a row for each sample held it, with a
// session of a run for each batch, and returns its size in bytes.
func version7(t *testing.T, path string, batches ...[]model.Sample) int64 {
	t.Helper()
	before := fstest.MapFS{}
	names, err := fs.Glob(migrations(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names[:7] {
		text, err := fs.ReadFile(migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = &fstest.MapFile{Data: text}
	}
	db, err := driver.Open(path, configure)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := migrate(t.Context(), db, before); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(query string, args ...any) {
		if _, err := tx.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO sessions VALUES (7, 'old', 'test', '', 'local', 'nas', '0.2.0', '2026-11-21T01:32:09.000000500Z', NULL,
		'done', '', 1, NULL, '{"reason":"unknown"}', 'null', '{"settings":null,"baseline":"","flow":{},"seed":1}', 'null', 'null', 'null', 'null', 'null', 'null', '')`)
	insert, err := tx.PrepareContext(t.Context(), `INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close()
	for r, samples := range batches {
		exec(fmt.Sprintf(`INSERT INTO runs VALUES (%d, 7, %d, 1, 1, 1, '', '', 'to', NULL, NULL, 'valid', '', 0, '{}', 'null', 'null')`, 100+r, r+1))
		for i, x := range samples {
			value := sql.NullFloat64{Float64: x.Value, Valid: !math.IsNaN(x.Value)}
			_, err := insert.ExecContext(t.Context(), 100+r, i, x.Host, x.Direction, x.Metric, int64(x.Start), int64(x.Length), value, x.Omitted, x.Of)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		t.Fatal(err)
	}
	return size(t, path)
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	i, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return i.Size()
}

// TestPackOldSamples packs the rows of a file of before: each run gives back what it
// had, exactly and in its order, and the table of rows is gone.
func TestPackOldSamples(t *testing.T) {
	var batches [][]model.Sample
	for seed := range 200 {
		batches = append(batches, storetest.Samples().Example(seed))
	}
	path := filepath.Join(t.TempDir(), "v7.db")
	version7(t, path, batches...)
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, want := range batches {
		got, err := s.Samples(t.Context(), "old", i+1)
		if d := storetest.Diff(want, got); err != nil || d != "" {
			t.Fatalf("run %d: %v; before (-), packed (+):\n%s", i+1, err, d)
		}
	}
	var left int
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM sqlite_schema WHERE name = 'samples'`).Scan(&left); err != nil || left != 0 {
		t.Fatalf("the rows are still there: %d, %v", left, err)
	}
}

// TestHourSize: six minutes at one second, of 57 samples each, made a file of a row for
// each of more than 1 MB; packed, and with all that belongs to a session, it is below the
// tenth of a MB that an hour of 1 MB allows it beside the 0.2 MB that empty tables take.
func TestHourSize(t *testing.T) {
	want := storetest.Seconds(rand.New(rand.NewPCG(12, 6)), 360)
	empty := version7(t, filepath.Join(t.TempDir(), "empty.db"))
	path := filepath.Join(t.TempDir(), "hour.db")
	before := version7(t, path, want)
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Samples(t.Context(), "old", 1)
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(want, got) {
		t.Error("what is packed reads as something else")
	}
	after := size(t, path)
	t.Logf("%d samples: %d bytes before, %d packed; without any, %d", len(want), before, after, empty)
	if before < 1_000_000 || after > empty+100_000 {
		t.Errorf("%d samples: %d bytes before, %d packed, without any %d", len(want), before, after, empty)
	}
}
