package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
	"linerate/internal/report"
)

// TestDryRun tells what the same command then does: its order by the seed, its runs and
// the bytes of a wire of a known rate. It measures, changes and keeps nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	needLab(t)
	db := filepath.Join(t.TempDir(), "results.db")
	args := []string{
		"run", "lab:rate=100mbit,rtt=1ms", "--factor", "far.tcp.recv_buffer_max=256KiB", "--before", "far:exit 9", "-t", "1s", "--omit", "0", "--settle", "0",
		"--blocks", "2", "--no-twin", "--seed", "7", "--db", db,
	}
	shown := succeed(t, append(args, "--dry-run", "--json")...).out
	must.Do(t, validate("linerate/dryrun/v1", shown))
	var d report.DryRun
	orPanic(json.Unmarshal([]byte(shown), &d))
	must.True(t, d.Seed == 7 && d.Blocks == 2 && d.Runs == 4 && d.Time.Or(0).Seconds() == 4 && len(d.First) == 2, "%+v", d)
	const bytes = 4 * 94.15e6 / 8 // of MTU 1500 with timestamps
	got := float64(d.Bytes.Or(0))
	must.True(t, math.Abs(got/bytes-1) <= 0.001, "%.0f bytes, want %.0f", got, float64(bytes))
	must.True(t, d.Assumed && strings.Contains(d.Noise.Source(), "assumed") && !d.LeastChange.IsKnown(), "noise %+v, least %+v: two blocks show nothing", d.Noise, d.LeastChange)
	must.True(t, len(d.Changes) == 2 && strings.Contains(d.Changes[0].Risk, "memory") && d.Changes[1].What == "exit 9" && d.Changes[1].Undo == "exit 0", "%+v", d.Changes)
	must.Contain(t, succeed(t, "list", "--json", "--db", db).out, `"sessions": []`, "kept")
	text := succeed(t, append(args, "--dry-run")...).out
	for _, want := range []string{"nothing is measured", "4 runs, 4 s", "(seed 7)", "47.1 MB of payload", "assumed", "tcp.recv_buffer_max=262144: may waste memory", `command "exit 9"`} {
		must.Contain(t, text, want)
	}
	args[5] = "far:exit 0"
	succeed(t, append(args, "-t", "50ms", "-q")...) // the last one counts
	s := decode[document](t, succeed(t, "show", "last", "--json", "--db", db).out)
	must.Equal(t, fmt.Sprint(s.Session.Plan.Order), fmt.Sprint(d.First), "told %v, done %v", d.First, s.Session.Plan.Order)
}

// TestDataBudgetOfATest: of a hundred runs each way no more are begun once the payload is
// sent, which on a machine with time for them is after the first two, and why is told.
func TestDataBudgetOfATest(t *testing.T) {
	t.Parallel()
	needLab(t)
	r := succeed(t, "test", "lab:rate=50mbit,rtt=1ms", "-t", "200ms", "-i", "200ms", "--omit", "0", "--idle", "0s", "--repeat", "100", "--data", "2MB", "--json=full", "--db", filepath.Join(t.TempDir(), "results.db"))
	must.OK(t, validate("linerate/session/v1", r.out))
	s := decode[document](t, r.out).Session
	last := slices.IndexFunc(s.Runs, func(r model.Run) bool { return r.Block == s.Runs[len(s.Runs)-1].Block })
	before, all := plan.Payload(s.Runs[:last]), plan.Payload(s.Runs)
	must.True(t, before < 2e6 && all >= 2e6 && len(s.Runs) <= 8 && strings.Contains(s.Reason, "the data budget of 2 MB is spent: "+all.Decimal()), "%d runs, %v before the last block, %v in all: %q", len(s.Runs), before, all, s.Reason)
}
