package main

import (
	"strings"
	"testing"

	"linerate/internal/core/tune"
)

// TestTuneThorough: what the finding names may not be tried, so that a thorough search goes
// on with the rest, several settings at a time: 16 runs tell that none of them helps. One
// that cannot be set, as a congestion control that a namespace may not have, is named by
// what the failed runs have in common, and the others are screened all the same. A dry run
// says what would be screened, and a search that is not thorough ends at once.
func TestTuneThorough(t *testing.T) {
	t.Parallel()
	needLab(t)
	args := []string{"tune", "lab:rate=50mbit,rtt=20ms,far.tcp.recv_autotune=off,far.tcp.recv_buffer_initial=16KiB,near.tcp.limit_output=4096", "--never", "tcp.recv_autotune", "--json", "--db", ":memory:",
		"-t", "1s", "--omit", "0.5s", "--settle", "0s", "--direction", "to", "--seed", "5", "--guard", "none"}
	plan := decode[tuned](t, succeed(t, append(args, "--thorough", "--dry-run")...).out)
	if p := strings.Join(plan.Plan, "\n"); !strings.HasPrefix(p, "1. where that leaves something to gain, several at a time") || !strings.Contains(p, "near.tcp.limit_output=4194304") {
		t.Errorf("plan:\n%s", p)
	}
	if short := decode[tuned](t, succeed(t, args...).out); short.Record.Runs != 0 || len(short.Ideas) != 1 {
		t.Errorf("it is not thorough: %+v", short.Tuned)
	}
	text := succeed(t, append(args, "--thorough")...).out
	if err := validate("linerate/tune/v2", text); err != nil {
		t.Error(err)
	}
	got := decode[tuned](t, text)
	screened := 0
	for _, f := range got.Record.Ideas {
		switch {
		case f.Blocks == 8 && f.State == tune.NoEffect && f.Detail == "screened":
			screened++
		case f.State == tune.Broke && (f.Levels != "near.tcp.congestion_control" || !strings.Contains(f.Detail, "permission denied")):
			t.Errorf("%+v", f)
		}
	}
	if got.Proven || got.Record.Runs < 16 || screened < 2 {
		t.Errorf("%d settings screened: %+v", screened, got.Tuned)
	}
}
