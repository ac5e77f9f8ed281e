package main

import (
	"encoding/base64"
	"errors"
	"html"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/store/archive"
	"linerate/internal/store/sqlite"
	"linerate/internal/store/storetest"
)

// sampled writes an archive of one session with five runs and so many samples, and
// returns its store's size in bytes.
func sampled(t testing.TB, path string, samples int) int64 {
	t.Helper()
	db := filepath.Join(t.TempDir(), "from.db")
	st := must.Get(sqlite.Open(t.Context(), db))(t)
	defer st.Close()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := model.Session{
		ID: "20261121T120000-many", Kind: model.KindTest, Near: "this machine", Far: "nas", State: model.SessionDone, Created: at, Ended: at.Add(time.Hour),
		Plan: model.Plan{Settings: []model.Setting{{Name: "as-is"}}, Baseline: "as-is", Directions: []model.Direction{model.To}},
	}
	must.Do(t, st.CreateSession(t.Context(), s))
	rng := rand.New(rand.NewPCG(12, 6))
	const runs = 5
	for n := 1; n <= runs; n++ {
		all := storetest.Seconds(rng, samples/runs/56)[:samples/runs]
		r := model.Run{Number: n, Block: n, Setting: "as-is", Started: at, Ended: at.Add(time.Hour), State: model.RunValid,
			Flow:   model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Hour, Interval: time.Second},
			Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 9.3e8}}}
		must.Do(t, st.AddRun(t.Context(), s.ID, r, all, nil))
	}
	f := must.Get(os.Create(path))(t)
	must.Do(t, errors.Join(archive.Write(t.Context(), f, st, nil), f.Close(), st.Close()))
	info := must.Get(os.Stat(db))(t)
	return info.Size()
}

// TestSamplesOfAReport: the page of report has all samples of a session in it, also where
// they are too many for its JSON: as an archive that can be imported again.
// TestTruthOfAMillionSamples does it with a million.
func TestSamplesOfAReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, page, db := filepath.Join(dir, "from.linerate"), filepath.Join(dir, "page.html"), filepath.Join(dir, "r.db")
	sampled(t, from, 5*4480)
	succeed(t, "import", from, "--db", db)
	succeed(t, "report", "last", "-o", page, "--db", db)
	attachedAgain(t, page, 5*4480)
}

// attachedAgain imports the archive that a page holds, and demands all its samples.
func attachedAgain(t testing.TB, page string, samples int) {
	t.Helper()
	text := must.Get(os.ReadFile(page))(t)
	m := regexp.MustCompile(`href="data:application/octet-stream;base64,([^"]+)"`).FindSubmatch(text)
	must.Need(t, m != nil && len(text) <= 8<<20, "no archive in a page of %d bytes", len(text))
	// As a browser does: the template escapes some of what base64 uses.
	data, err := base64.StdEncoding.DecodeString(html.UnescapeString(string(m[1])))
	from := filepath.Join(t.TempDir(), "again.linerate")
	must.Do(t, errors.Join(err, os.WriteFile(from, data, 0o600)))
	f := must.Get(os.Open(from))(t)
	defer f.Close()
	a := must.Get(archive.Open(t.Context(), f))(t)
	defer a.Close()
	n := 0
	for run := 1; run <= 5; run++ {
		all := must.Get(a.Samples(t.Context(), "last", run))(t)
		n += len(all)
	}
	must.Equal(t, n, samples, "samples are in the page")
}
