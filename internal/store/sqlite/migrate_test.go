package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ncruces/go-sqlite3/driver"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/store"
)

// raw runs script in the database at path, past the store.
func raw(t *testing.T, path, script string) {
	t.Helper()
	db, err := driver.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), script); err != nil {
		t.Fatal(err)
	}
}

// TestVersion1 reads a file as the first version of the tables wrote it.
func TestVersion1(t *testing.T) {
	script, err := os.ReadFile("testdata/version1.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "v1.db")
	raw(t, path, string(script))
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sess, err := s.Session(t.Context(), "20261121")
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 11, 21, 1, 32, 9, 500, time.UTC); !sess.Created.Equal(want) {
		t.Errorf("created %v, want %v", sess.Created, want)
	}
	if rate, ok := sess.WireRate.Get(); !ok || rate != 1e9 {
		t.Errorf("wire rate %v, known %v", rate, ok)
	}
	if got := sess.Plan.Margin; got != units.Percent(3) || sess.Plan.Seed != 18446744073709551615 {
		t.Errorf("plan margin %v, seed %d", got, sess.Plan.Seed)
	}
	if len(sess.Runs) != 2 || len(sess.Changes) != 1 || len(sess.Verdicts) != 1 {
		t.Fatalf("%d runs, %d changes, %d verdicts", len(sess.Runs), len(sess.Changes), len(sess.Verdicts))
	}
	if v, ok := sess.Runs[1].Value(model.To, model.Goodput); !ok || v != 941.5e6 || sess.Runs[1].Flow.Duration != 20*time.Second {
		t.Errorf("run 2: goodput %v, %v; duration %v", v, ok, sess.Runs[1].Flow.Duration)
	}
	if sess.Plan.Decides() != model.Goodput || len(sess.Plan.Guards) != 0 || sess.Noise != nil || sess.Verdicts[0].Guard != nil {
		t.Errorf("%s decides, guards %v, noise %v: a plan of before decides on goodput and has no guards", sess.Plan.Decides(), sess.Plan.Guards, sess.Noise)
	}
	if v := sess.Verdicts[0]; v.Outcome != model.Better || v.Evidence == nil || *v.Evidence != 138.859354 || v.P != nil {
		t.Errorf("verdict %+v", v)
	}
	samples, err := s.Samples(t.Context(), "last", 2)
	if err != nil || len(samples) != 2 || !samples[0].Omitted || samples[1].Value != 941.5e6 {
		t.Errorf("samples %v, %v", samples, err)
	}
}

// TestFirstHour19StoresOfBefore reads a store that calls the ends a and b.
func TestFirstHour19StoresOfBefore(t *testing.T) {
	script, err := os.ReadFile("testdata/version1.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "v1.db")
	raw(t, path, string(script)+`
		INSERT INTO run_values VALUES (1, 1, '', 'cpu_a', 0.5), (1, 2, '', 'cpu_b', 0.25), (1, 3, 'to', 'cpu_per_gbit_a', 2), (1, 4, 'to', 'cpu_per_gbit_b', 3);
		INSERT INTO verdicts SELECT session, 1, setting, baseline, direction, 'cpu_per_gbit_b', outcome, size, blocks, estimate, low, high, confidence,
			method, family_json, p, evidence, more_blocks, reason, is_twin, warnings_json FROM verdicts;`)
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sess, err := s.Session(t.Context(), "20261121")
	if err != nil {
		t.Fatal(err)
	}
	if sess.Changes[0].Host != model.Far || sess.Runs[0].Ends[0].Host != model.Far || sess.Verdicts[1].Metric != model.CPUPerGbitFar {
		t.Errorf("change of %s, report of %s, verdict on %s", sess.Changes[0].Host, sess.Runs[0].Ends[0].Host, sess.Verdicts[1].Metric)
	}
	for i, want := range []model.Metric{model.Goodput, "cpu_near", "cpu_far", model.CPUPerGbitNear, model.CPUPerGbitFar} {
		if got := sess.Runs[0].Values[i].Metric; got != want {
			t.Errorf("value %d: %s, want %s", i, got, want)
		}
	}
	samples, err := s.Samples(t.Context(), "20261121", 1)
	if err != nil || len(samples) != 2 || samples[0].Host != model.Far {
		t.Errorf("samples %v, %v", samples, err)
	}
}

// version2 is a file as version 2 of the tables held it, when a flow had a field
// for each engine: a session whose plan is its first flow, and a run of each.
func version2(t *testing.T, path string, flows ...string) {
	t.Helper()
	var script strings.Builder
	for _, name := range []string{"0001_sessions.sql", "0002_parts.sql"} {
		text, err := fs.ReadFile(migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		script.Write(text)
	}
	fmt.Fprintf(&script, `INSERT INTO sessions VALUES (7, 'old', 'test', '', 'local', 'nas', '0.2.0', '2026-11-21T01:32:09.000000500Z', NULL,
		'done', '', 1, NULL, '{"reason":"unknown"}', 'null', '{"settings":null,"baseline":"","flow":%s,"directions":["to"],"seed":18446744073709551615}',
		'null', 'null', 'null', 'null');`, flows[0])
	for i, flow := range flows {
		fmt.Fprintf(&script, `INSERT INTO runs VALUES (%d, 7, %d, 1, 1, 1, '', '', 'to', NULL, NULL, 'valid', '', 0, '%s', 'null', 'null');`, i+1, i+1, flow)
	}
	fmt.Fprintf(&script, "PRAGMA application_id = %d; PRAGMA user_version = 2", applicationID)
	raw(t, path, script.String())
}

// TestVersion2 reads what belonged to an engine from where it was before.
func TestVersion2(t *testing.T) {
	head := `"direction":"to","duration_ns":5000000000,"omit_ns":1000000000,"interval_ns":1000000000`
	cases := []struct {
		old  string
		want model.Flow
	}{
		{`{"engine":"loaded",` + head + `,"udp":{"rate":500000000.5,"pacing":"clock","plain":true},"loaded":{"engine":"udpflow","idle_ns":250000000}}`,
			model.Flow{Engine: "loaded", Lead: 250 * time.Millisecond, Params: traffic.Write(probes.Params{Engine: "udpflow",
				Load: traffic.Write(udp.Params{Rate: 500000000.5, Pacing: "clock", Plain: true})})}},
		{`{"engine":"loaded",` + head + `,"loaded":{"engine":"tcpbulk","idle_ns":1000000000}}`,
			model.Flow{Engine: "loaded", Lead: time.Second, Params: traffic.Write(probes.Params{Engine: "tcpbulk"})}},
		{`{"engine":"tcpbulk",` + head + `,"streams":4,"window":65536}`, model.Flow{Engine: "tcpbulk", Streams: 4, Window: 65536}},
		{`{"engine":"udpflow",` + head + `,"udp":{}}`, model.Flow{Engine: "udpflow", Params: "{}"}},
		{`{"engine":"reqresp",` + head + `,"requests":{"rate":0.1,"reply":4096,"connect":true}}`,
			model.Flow{Engine: "reqresp", Params: traffic.Write(requests.Params{Rate: 0.1, Reply: 4096, Connect: true})}},
		{`{"engine":"pingpong",` + head + `,"sweep":{"sizes":[3,1,8388608],"mode":"both","fresh":true}}`,
			model.Flow{Engine: "pingpong", Points: 3, Params: traffic.Write(sizes.Params{Sizes: []units.Bytes{3, 1, 8 << 20}, Mode: "both", Fresh: true})}},
		{`{"engine":"netpipe",` + head + `,"sweep":{"sizes":[]}}`, model.Flow{Engine: "netpipe", Params: traffic.Write(sizes.Params{Sizes: []units.Bytes{}})}},
		{`{"engine":"filecopy",` + head + `,"bytes":7,"copy":{"mode":"copy","source":"disk","sink":"/srv/\"a\" <b>","sync":true}}`,
			model.Flow{Engine: "filecopy", Bytes: 7, Params: traffic.Write(files.Params{Mode: "copy", Source: "disk", Sink: `/srv/"a" <b>`, Sync: true})}},
	}
	var old []string
	for _, c := range cases {
		old = append(old, c.old)
	}
	path := filepath.Join(t.TempDir(), "v2.db")
	version2(t, path, old...)
	for range 2 { // the second time there is nothing to do
		s, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		sess, err := s.Session(t.Context(), "old")
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		if sess.Plan.Seed != math.MaxUint64 || len(sess.Runs) != len(cases) {
			t.Fatalf("seed %d, %d runs", sess.Plan.Seed, len(sess.Runs))
		}
		for i, c := range cases {
			c.want.Direction, c.want.Duration, c.want.Omit, c.want.Interval = model.To, 5*time.Second, time.Second, time.Second
			got := sess.Runs[i].Flow
			if i == 0 && sess.Plan.Flow != got {
				t.Errorf("plan %+v, run %+v", sess.Plan.Flow, got)
			}
			if !sameFlow(t, got, c.want) {
				t.Errorf("%s\nis read as %+v,\nwant       %+v", c.old, got, c.want)
			}
		}
	}
}

// sameFlow compares flows whose parameters may be written differently.
func sameFlow(t *testing.T, a, b model.Flow) bool {
	t.Helper()
	values := func(p model.Params) (v any) {
		if p == "" {
			return nil
		}
		if err := json.Unmarshal([]byte(p), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	params := reflect.DeepEqual(values(a.Params), values(b.Params))
	a.Params, b.Params = "", ""
	return params && a == b
}

func TestOpenRefuses(t *testing.T) {
	ours := func(t *testing.T, path string) {
		s, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil { // Close is idempotent
			t.Fatal(err)
		}
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
		}, store.ErrNewer, "its tables have version 99, this linerate knows 9"},
		{"foreign tables", func(t *testing.T, path string) { raw(t, path, "CREATE TABLE t (x)") }, store.ErrForeign, "not a store of linerate"},
		{"foreign application", func(t *testing.T, path string) { raw(t, path, "PRAGMA application_id = 1") }, store.ErrForeign, "not a store of linerate"},
		{"not SQLite", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("time,rate\n", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, store.ErrForeign, "or damaged"},
		{"folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
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
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("%v: does not wrap %v", err, test.want)
			}
			if !strings.Contains(err.Error(), test.say) {
				t.Errorf("%v: does not say %q", err, test.say)
			}
		})
	}
}

// TestMigrateSteps demands that only missing steps run, in order, and that a
// step that fails leaves everything as it was.
func TestMigrateSteps(t *testing.T) {
	db, err := driver.Open(Memory)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	defer db.Close()
	files := fstest.MapFS{
		"0001_a.sql": {Data: []byte("CREATE TABLE log (step INTEGER); INSERT INTO log VALUES (1)")},
		"0002_b.sql": {Data: []byte("INSERT INTO log VALUES (2)")},
		"README":     {Data: []byte("not a step")},
	}
	check := func(want ...int) {
		t.Helper()
		if got := steps(t.Context(), t, db); !slices.Equal(got, want) {
			t.Errorf("steps %v, want %v", got, want)
		}
	}
	for range 2 {
		if err := migrate(t.Context(), db, files); err != nil {
			t.Fatal(err)
		}
		check(1, 2)
	}
	files["0003_c.sql"] = &fstest.MapFile{Data: []byte("INSERT INTO log VALUES (3)")}
	files["0004_d.sql"] = &fstest.MapFile{Data: []byte("INSERT INTO log VALUES (4); INSERT INTO nowhere VALUES (4)")}
	if err := migrate(t.Context(), db, files); err == nil || !strings.Contains(err.Error(), "0004_d.sql") {
		t.Errorf("error %v does not name the step", err)
	}
	check(1, 2)
	delete(files, "0004_d.sql")
	if err := migrate(t.Context(), db, files); err != nil {
		t.Fatal(err)
	}
	check(1, 2, 3)
	delete(files, "0003_c.sql")
	if err := migrate(t.Context(), db, files); !errors.Is(err, store.ErrNewer) {
		t.Errorf("older build: %v, want ErrNewer", err)
	}
}

func steps(ctx context.Context, t *testing.T, db *sql.DB) []int {
	t.Helper()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	ran, err := all(ctx, tx, func(rows *sql.Rows) (n int, err error) {
		err = rows.Scan(&n)
		return n, err
	}, "SELECT step FROM log ORDER BY rowid")
	if err != nil {
		t.Fatal(err)
	}
	return ran
}

// TestMigrationNames demands numbers without gaps, since the count is the version.
func TestMigrationNames(t *testing.T) {
	names, err := fs.Glob(migrations(), "*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for i, name := range names {
		if want := []byte{'0', '0', '0' + byte((i+1)/10), '0' + byte((i+1)%10), '_'}; !strings.HasPrefix(name, string(want)) {
			t.Errorf("%s: want prefix %s", name, want)
		}
	}
}
