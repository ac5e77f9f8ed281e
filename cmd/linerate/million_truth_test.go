//go:build truth && linux

package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"linerate/internal/must"
	"linerate/internal/store/postgres/postgrestest"
	"linerate/internal/truth"
)

// TestTruthOfAMillionSamples imports, lists, shows and reports a million samples, with both
// stores, in a file that grows as they do: below 10 s of processor time in all, which does
// not count what others do on the machine meanwhile, and each step below 300 MiB.
func TestTruthOfAMillionSamples(t *testing.T) {
	const million = 1_000_000
	dir := t.TempDir()
	from := filepath.Join(dir, "million.linerate")
	quarter, whole := sampled(t, filepath.Join(dir, "quarter.linerate"), million/4), sampled(t, from, million)
	ratio := float64(whole) / float64(quarter)
	must.True(t, ratio >= 3.6 && ratio <= 4.4, "four times the samples are %.2f times the file: %d bytes and %d", ratio, quarter, whole)
	stores := map[string]func() string{"SQLite": func() string { return filepath.Join(t.TempDir(), "results.db") }}
	switch server, err := postgrestest.Start(t.Context()); {
	case err == nil:
		t.Cleanup(func() {
			must.OK(t, server.Stop())
		})
		stores["PostgreSQL"] = func() string { return server.Database(t) }
	case errors.Is(err, postgrestest.ErrMissing):
		t.Log(err)
	default:
		t.Fatal(err)
	}
	for name, db := range stores {
		t.Run(name, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) { handleSamples(try, from, db(), million) })
		})
	}
}

func handleSamples(try *truth.Try, from, db string, samples int) {
	page := filepath.Join(try.TempDir(), "page.html")
	var total time.Duration
	var most int64
	for _, args := range [][]string{
		{"import", from}, {"list"}, {"show", "last"}, {"report", "last", "--format", "markdown"}, {"report", "last", "-o", page},
	} {
		cmd := exec.CommandContext(try.Context(), binary, append(args, "--db", db)...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		must.Do(try, cmd.Start())
		peak := residentPeak(cmd.Process.Pid)
		if err := cmd.Wait(); err != nil {
			try.Fatalf("%q: %v\n%s", args, err, out.Bytes())
		}
		total += cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime()
		most = max(most, <-peak>>10)
	}
	try.Claim("processor time", total.Seconds(), 0, 10, "s")
	try.Claim("memory", float64(most), 0, 300, "MiB")
	attachedAgain(try, page, samples)
}
