package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"html"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/store/archive"
	"linerate/internal/store/postgres/postgrestest"
	"linerate/internal/store/sqlite"
	"linerate/internal/store/storetest"
)

// The most that the commands about a million samples may take: together in processor
// time, which does not count what others do on the machine meanwhile, and each in memory.
const (
	millionTime = 10 * time.Second
	millionKiB  = 300 << 10
)

// sampled writes an archive of one session with five runs and so many samples, and
// returns its store's size in bytes.
func sampled(t testing.TB, path string, samples int) int64 {
	t.Helper()
	db := filepath.Join(t.TempDir(), "from.db")
	st, err := sqlite.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := model.Session{
		ID: "20261121T120000-many", Kind: model.KindTest, Near: "this machine", Far: "nas", State: model.SessionDone, Created: at, Ended: at.Add(time.Hour),
		Plan: model.Plan{Settings: []model.Setting{{Name: "as-is"}}, Baseline: "as-is", Directions: []model.Direction{model.To}},
	}
	if err := st.CreateSession(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(12, 6))
	const runs = 5
	for n := 1; n <= runs; n++ {
		all := storetest.Seconds(rng, samples/runs/56)[:samples/runs]
		r := model.Run{Number: n, Block: n, Setting: "as-is", Started: at, Ended: at.Add(time.Hour), State: model.RunValid,
			Flow:   model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Hour, Interval: time.Second},
			Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 9.3e8}}}
		if err := st.AddRun(t.Context(), s.ID, r, all, nil); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(archive.Write(t.Context(), f, st, nil), f.Close(), st.Close()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(db)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestMillionSamples imports, lists, shows and reports a million samples, with
// both stores: below 10 s in all, each step below 300 MB, in a file that grows as they do.
// The page of report has all samples in it, as an archive that can be imported again.
func TestMillionSamples(t *testing.T) {
	const million = 1_000_000
	dir := t.TempDir()
	from := filepath.Join(dir, "million.linerate")
	quarter, whole := sampled(t, filepath.Join(dir, "quarter.linerate"), million/4), sampled(t, from, million)
	t.Logf("a quarter of a million samples are %d bytes, a million %d", quarter, whole)
	if ratio := float64(whole) / float64(quarter); ratio < 3.6 || ratio > 4.4 {
		t.Errorf("four times the samples are %.2f times the file", ratio)
	}
	stores := map[string]string{"SQLite": filepath.Join(dir, "results.db")}
	server, err := postgrestest.Start(t.Context())
	if err == nil {
		defer func() {
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
		}()
		stores["PostgreSQL"] = server.Database(t)
	} else {
		t.Run("PostgreSQL", func(t *testing.T) {
			if !errors.Is(err, postgrestest.ErrMissing) {
				t.Fatal(err)
			}
			t.Skip(err)
		})
	}
	for name, db := range stores {
		t.Run(name, func(t *testing.T) {
			page := filepath.Join(t.TempDir(), "page.html")
			var total time.Duration
			for _, args := range [][]string{
				{"import", from},
				{"list"},
				{"show", "last"},
				{"report", "last", "--format", "markdown"},
				{"report", "last", "-o", page},
			} {
				cmd := exec.CommandContext(t.Context(), binary, append(args, "--db", db)...)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				peak := residentPeak(cmd.Process.Pid)
				if err := cmd.Wait(); err != nil {
					t.Fatalf("%q: %v\n%s", args, err, out.Bytes())
				}
				used, kib := cmd.ProcessState.SystemTime()+cmd.ProcessState.UserTime(), <-peak
				t.Logf("%-8s %5d ms %4d MiB", args[0], used.Milliseconds(), kib>>10)
				if kib > millionKiB {
					t.Errorf("%q took %d MiB", args, kib>>10)
				}
				total += used
			}
			if total > millionTime {
				t.Errorf("all took %s of processor time", total)
			}
			attachedAgain(t, page)
		})
	}
}

// attachedAgain imports the archive that a page holds, and demands all its samples.
func attachedAgain(t testing.TB, page string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the page has %d KiB", len(text)>>10)
	m := regexp.MustCompile(`href="data:application/octet-stream;base64,([^"]+)"`).FindSubmatch(text)
	if m == nil || len(text) > 8<<20 {
		t.Fatalf("no archive in a page of %d bytes", len(text))
	}
	// As a browser does: the template escapes some of what base64 uses.
	data, err := base64.StdEncoding.DecodeString(html.UnescapeString(string(m[1])))
	from := filepath.Join(t.TempDir(), "again.linerate")
	if err := errors.Join(err, os.WriteFile(from, data, 0o600)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := archive.Open(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	n := 0
	for run := 1; run <= 5; run++ {
		all, err := a.Samples(t.Context(), "last", run)
		if err != nil {
			t.Fatal(err)
		}
		n += len(all)
	}
	if n != 1_000_000 {
		t.Errorf("%d samples are in the page", n)
	}
}
