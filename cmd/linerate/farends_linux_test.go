package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestFarEndsInLabs: blocks alternate over far ends with a setting of each, everything is undone,
// and reports distinguish the ends. TestTruthOfFarEnds checks what each of them carries, and
// resumes with new connections.
func TestFarEndsInLabs(t *testing.T) {
	labBeside(t)
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

// TestFarEndsChangeOneNearHost: the near end of several far ends is one host, changed through one
// session; its settings for each run are undone after it.
func TestFarEndsChangeOneNearHost(t *testing.T) {
	t.Parallel()
	r := run(t, pairInLab(t, "rate=50mbit,rtt=2ms", `cut -f3 /proc/sys/net/ipv4/tcp_wmem
$LR run --from "$near" --factor "far=$far,${far}2" --factor near.tcp.send_buffer_max=1MiB,2MiB --blocks 3 -t 200ms --omit 100ms --settle 0s --no-twin --db $DIR/r.db -q
cut -f3 /proc/sys/net/ipv4/tcp_wmem
`))
	must.True(t, r.code == 0 && strings.Contains(r.out, " changes on 10.99.0.1, all undone, verified") && strings.Count(r.out, "4194304") == 2 && !strings.Contains(r.out, "10.99.0.2, 10.99.0.2"), "exit code %d\n%s%s", r.code, r.out, r.err)
}

// TestSweepsOfFarEnds: sweeps of two far hosts with two settings each are four sessions, whose
// settings are undone, and one picture.
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

// acrossArgs compares two far ends in short runs, in this many blocks.
func acrossArgs(blocks, one, two string, more ...string) []string {
	return append([]string{
		"run", "--factor", "far=" + one + "," + two, "--settle", "0s", "--no-twin", "-n", "256KiB", "--omit", "0s", "--cooldown", "200ms",
		"--objective", "goodput", "--blocks", blocks, "--json", "-q",
	}, more...)
}

// farCounts returns the valid runs of each far end, by name, and how many runs were lost: those
// of the order, and those at equal load, which follow the runs of their block.
func farCounts(s model.Session) (valid map[string]int, lost, atEqualLoad int) {
	valid = map[string]int{}
	for _, r := range s.Runs {
		setting, _ := s.Plan.Setting(r.Setting)
		switch {
		case r.State == model.RunValid:
			valid[setting.FarEnd()]++
		case r.LostContact && r.Position > len(s.Plan.Settings):
			atEqualLoad++
		case r.LostContact:
			lost++
		}
	}
	return valid, lost, atEqualLoad
}

// wentOn requires that a session lost its second far end midway, after three attempts at a run
// with it, and ended with what could still be decided. The end may also have died in a run at
// equal load, which a block has if the end was faster but slower to answer than the other.
func wentOn(t testing.TB, r result) {
	t.Helper()
	r.succeeds(t)
	s := decode[document](t, r.out).Session
	valid, lost, atEqualLoad := farCounts(s)
	ends := s.Plan.FarEnds()
	warned, _ := json.Marshal(s.Warnings)
	for _, r := range s.Runs {
		setting, _ := s.Plan.Setting(r.Setting)
		must.True(t, setting.FarEnd() != ends[0] || !r.LostContact, "run %d with %s, which lives, is %s: %s", r.Number, ends[0], r.State, r.Reason)
	}
	must.True(t, s.State == model.SessionDone && valid[ends[1]] != 0 && valid[ends[0]] >= valid[ends[1]] && valid[ends[1]] <= 11 && strings.Contains(string(warned), ends[1]+" is out of reach and was left out"), "%s (%s): %v, %s", s.State, s.Reason, valid, warned)
	must.True(t, lost == 3 && atEqualLoad <= 1, "%d runs lost, and %d at equal load", lost, atEqualLoad)
}

// TestFarEndsServed compares two servers, each with its own key; then one of them is killed
// midway, and the session goes on with the other.
func TestFarEndsServed(t *testing.T) {
	n := netnsBeside(t)
	one, first := n.serve(t)
	two, second := n.serve(t, "--listen", farAddr+":5300", "--state", n.state("far")+"2")
	must.Need(t, first.Secret != second.Secret && first.Pin != second.Pin, "both servers have one key")
	r := run(t, n.inside(t, "near", acrossArgs("6", first.String(), second.String())...)).succeeds(t)
	s := decode[document](t, r.out).Session
	valid, lost, atEqualLoad := farCounts(s)
	ends := s.Plan.FarEnds()
	secret := strings.Contains(r.out, first.Secret) || strings.Contains(r.out, second.Secret)
	must.True(t, len(ends) == 2 && valid[ends[0]] >= 6 && valid[ends[1]] >= 6 && lost+atEqualLoad == 0 && !secret && strings.HasSuffix(ends[1], ":5300"), "%v, %d lost, a secret is shown: %v", valid, lost, secret)
	p := start(t, n.inside(t, "near", acrossArgs("12", first.String(), second.String(), "--db", filepath.Join(n.dir, "dies.db"))...))
	must.Until(t, "a run with the second one", func() bool {
		return strings.Contains(run(t, n.inside(t, "near", "show", "last", "--json", "--db", filepath.Join(n.dir, "dies.db"))).out, `"number": 4`)
	})
	two.signal(t, syscall.SIGKILL)
	wentOn(t, p.wait(t, patience))
	one.signal(t, os.Interrupt)
}

// TestFarEndsRefused: what several far ends cannot do is refused in one sentence, with a hint.
func TestFarEndsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args        []string
		says, hints string
	}{
		{[]string{"run", "--factor", "far=iperf3://127.0.0.1,iperf3://127.0.0.2"}, "iperf3://127.0.0.1: several far ends are compared where linerate runs on each", "start linerate serve there, or compare over ssh: user@host"},
		{[]string{"run", "--factor", "far=lab:lan,lab:wan", "--factor", "link.mtu=1500,1400", "--group", "link.mtu"}, "several far ends are a factor, whose hosts take turns", "leave the group out, or measure each far end in a session of its own"},
	} {
		r := run(t, command(t, c.args...))
		must.True(t, r.code == 2 && strings.Contains(r.err, c.says) && strings.Contains(strings.ReplaceAll(r.err, "\n", " "), c.hints) && strings.Count(r.err, "linerate:") == 1, "%q: exit code %d\n%s, want %q with %q", c.args, r.code, r.err, c.says, c.hints)
	}
}
