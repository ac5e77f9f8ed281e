package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
)

// TestGroupInALab: a factor that is hard to change is applied once for each group of
// runs, two in each of three blocks, on both hosts, and every change is undone.
func TestGroupInALab(t *testing.T) {
	needLab(t)
	t.Parallel()
	args := []string{"run", "lab:rate=50mbit,rtt=2ms", "--factor", "link.mtu=1400,1500", "--factor", "window=16KiB,64KiB,256KiB", "--settle", "0s",
		"--no-twin", "-t", "100ms", "--omit", "0s", "--blocks", "3", "--db", filepath.Join(t.TempDir(), "results.db"), "--json", "-q"}
	var dry report.DryRun
	told := succeed(t, append(args, "--group", "link.mtu", "--dry-run")...).out
	orPanic(json.Unmarshal([]byte(told), &dry))
	if err := validate("linerate/dryrun/v1", told); err != nil || dry.Held == nil || dry.Held.Knob != "link.mtu" || dry.Held.Runs != 3 || dry.Held.Changes != 2 {
		t.Errorf("told: %+v, %v", dry.Held, err)
	}
	r := run(t, command(t, append(args, "--group", "link.mtu")...)).succeeds(t)
	j := decode[document](t, r.out).Session
	repeated := slices.ContainsFunc(j.Runs, func(r model.Run) bool { return r.Attempt > 1 })
	must.True(t, j.Plan.Held == "link.mtu" && j.Plan.Baseline == "mtu=1400 window=16KiB" && (repeated || len(j.Runs) == 18 && len(j.Changes) == 12), "holds %q, baseline %q, %d runs, %d changes", j.Plan.Held, j.Plan.Baseline, len(j.Runs), len(j.Changes))
	for _, c := range j.Changes {
		must.True(t, c.Knob == "link.mtu" && c.State == model.ChangeUndone, "%+v", c)
	}
	run(t, command(t, append(args, "--group", "link.mtv")...)).ends(t, 2, "did you mean link.mtu?")
}
