package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestFarEndsInLabs: blocks alternate over far ends with a setting of each, everything is
// undone, and reports tell the ends apart. TestTruthOfFarEnds holds what each of them
// carries, and goes on later with connections of its own.
func TestFarEndsInLabs(t *testing.T) {
	t.Parallel()
	needLab(t)
	db := filepath.Join(t.TempDir(), "results.db")
	args := []string{"run", "--factor", "far=lab:rate=50mbit,rtt=1ms,lab:rate=20mbit,rtt=1ms", "--factor", "far.tcp.recv_buffer_max=1MiB,2MiB",
		"--settle", "0s", "--no-twin", "-t", "100ms", "--omit", "100ms", "--blocks", "1", "--db", db, "--json", "-q"}
	s := decode[document](t, succeed(t, args...).out).Session
	must.True(t, len(s.Plan.Ends) == 1 && len(s.Changes) == len(s.Runs) && len(s.Runs) >= 4, "%d ends, %d changes of %d runs", len(s.Plan.Ends), len(s.Changes), len(s.Runs))
	for _, c := range s.Changes {
		must.Equal(t, c.State, model.ChangeUndone, "%+v", c)
	}
	for format, want := range map[string]string{"html": "Every far end with every", "markdown": "far end"} {
		file := filepath.Join(t.TempDir(), "report")
		succeed(t, "report", "last", "--format", format, "-o", file, "--db", db)
		text, err := os.ReadFile(file)
		must.True(t, err == nil && strings.Contains(string(text), want), "%s: %q is not in %d bytes, %v", format, want, len(text), err)
	}
}

// TestFarEndsChangeOneNearHost: the near end of several far ends is one host, which takes
// settings from one session; what it takes for each run is undone after it.
func TestFarEndsChangeOneNearHost(t *testing.T) {
	t.Parallel()
	r := run(t, pairInLab(t, "rate=50mbit,rtt=2ms", `cut -f3 /proc/sys/net/ipv4/tcp_wmem
$LR run --from "$near" --factor "far=$far,${far}2" --factor near.tcp.send_buffer_max=1MiB,2MiB --blocks 3 -t 200ms --omit 100ms --settle 0s --no-twin --db $DIR/r.db -q
cut -f3 /proc/sys/net/ipv4/tcp_wmem
`))
	must.True(t, r.code == 0 && strings.Contains(r.out, " changes on 10.99.0.1, all undone, verified") && strings.Count(r.out, "4194304") == 2 && !strings.Contains(r.out, "10.99.0.2, 10.99.0.2"), "exit code %d\n%s%s", r.code, r.out, r.err)
}

// TestSweepsOfFarEnds: sweeps of two far hosts with two settings each are four sessions,
// whose settings are undone, and one picture.
func TestSweepsOfFarEnds(t *testing.T) {
	t.Parallel()
	r := run(t, pairInLab(t, "rate=50mbit,rtt=2ms", `
$LR sweep --from "$near" --factor "far=$far,${far}2" --set small:link.mtu=1400 --set as-is --max 64 -t 200ms --db $DIR/r.db -q --json > $DIR/list || exit 9
ids=$(grep -o '"id": *"[^"]*"' $DIR/list | cut -d'"' -f4 | paste -sd,)
$LR report "${ids%%,*}" --beside "${ids#*,}" --db $DIR/r.db -o $DIR/page.html && grep -o "small [^<]*, to 10.99.0.2\|4 sweeps in one picture" $DIR/page.html
$LR show "${ids##*,}" --db $DIR/r.db
`))
	must.True(t, r.code == 0 && strings.Contains(r.out, "4 sweeps in one picture") && strings.Contains(r.out, "small ") && strings.Contains(r.out, "all undone, verified"), "exit code %d\n%s%s", r.code, r.out, r.err)
}
