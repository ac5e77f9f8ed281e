package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"linerate/internal/must"
)

// TestSetPerHost gives each host its own value.
func TestSetPerHost(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	before := n.bothKnobs(t)
	r := held(t, n.inside(t, "near", "set", "near.tcp.sack=off", "far.tcp.recv_buffer_max=64KiB", "--both", "--for", "10m", n.agent("far")), func() bool {
		now := n.bothKnobs(t)
		return now.near.sack != before.near.sack && now.near.rmem == before.near.rmem && now.far.sack == before.far.sack && now.far.rmem != before.far.rmem
	})
	must.Equal(t, strings.Count(r.out, ": back to "), 2, "%s%s", r.out, r.err)
	must.Contain(t, r.out, "\n"+farAddr+": tcp.recv_buffer_max ", "the far host has the name that the person gave it")
	n.restored(t, before)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"far.tcp.sack=off"}, "far.tcp.sack: no HOST is named"},
		{[]string{"near.tcp.sack=off", n.agent("far")}, "near.tcp.sack: without --both the change is about HOST alone"},
		{[]string{"c.tcp.sack=off", n.agent("far")}, `c.tcp.sack: unknown host "c": write `},
		{[]string{"near.tcp.sack=off", "tcp.sack=off", "--both", n.agent("far")}, "tcp.sack is set twice"},
	} {
		r := run(t, n.inside(t, "near", append([]string{"set"}, c.args...)...))
		must.True(t, r.code == 2 && strings.Contains(r.err, c.says), "%q: exit code %d\n%s%s", c.args, r.code, r.out, r.err)
	}
	n.restored(t, before)
}

// TestProfileApply sets both parts of a profile as one change, tells what is
// different from where it was tried, and keeps it when told to.
func TestProfileApply(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	file := n.dir + "/pair.yaml"
	text := "profile: 2\nhosts:\n- {role: near, kernel: 2.6.9, knobs: {tcp.sack: off}}\n- {role: far, system: freebsd, knobs: {tcp.recv_buffer_max: 64KiB}}\n"
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	before := n.bothKnobs(t)
	tt := onTerminal(t, n.inside(t, "near", "profile", "apply", file, "--both", n.agent("far")))
	tt.asked(t, "y\n")
	r := tt.wait(t, patience)
	now := n.bothKnobs(t)
	must.True(t, r.code == 0 && now.near.sack != before.near.sack && now.near.rmem == before.near.rmem && now.far.sack == before.far.sack && now.far.rmem != before.far.rmem, "exit code %d: %+v, before %+v\n%s", r.code, now, before, r.out)
	for _, says := range []string{"tried with kernel 2.6.9", "tried on freebsd, and this host runs linux"} {
		must.Contain(t, r.out, says, "it")
	}
	r = run(t, n.inside(t, "near", "profile", "apply", file, "--both", "--json", n.agent("far")))
	if err := validate("linerate/set/v1", r.out); err != nil || r.code != 0 || !strings.Contains(r.out, `"nothing to do"`) || !strings.Contains(r.err, "1 of 1 settings of the profile are there already") {
		t.Errorf("again: exit code %d, %v\n%s%s", r.code, err, r.out, r.err)
	}
	for _, args := range [][]string{{"undo", n.agent("far")}, {"undo"}} {
		r := run(t, n.inside(t, "near", args...))
		must.True(t, r.code == 0 && strings.Count(r.out, ": back to ") == 1, "%q: exit code %d\n%s%s", args, r.code, r.out, r.err)
	}
	n.restored(t, before)
	run(t, n.inside(t, "near", "profile", "apply", file)).ends(t, 2, "choose with --role") // without a role
}

// TestSetKilledBetweenConfirmations kills the controller when the far host was told
// to keep a change and this one was not: the far one keeps it, this one goes back,
// and the next change says so.
func TestSetKilledBetweenConfirmations(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	before := n.bothKnobs(t)
	tt := onTerminal(t, n.inside(t, "near", setArgs("--both", n.agent("far"))...))
	eventually(t, patience, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it? [y/N]") })
	watchdog := relatives(tt.cmd.Process.Pid, n.dir).watchdogFar
	must.Need(t, watchdog != 0, "no watchdog on the far host")
	// A watchdog that stands still sees the confirmation later: the controller waits.
	must.Do(t, unix.Kill(watchdog, unix.SIGSTOP))
	tt.asked(t, "y\n")
	eventually(t, patience, "the confirmation on the far host", func() bool {
		_, noted := os.Stat(n.dir + "/confirming.json")
		told, err := os.ReadFile(filepath.Join(n.state("far"), "confirmed"))
		return noted == nil && err == nil && len(told) > 0
	})
	tt.signal(t, unix.SIGKILL)
	must.Do(t, unix.Kill(watchdog, unix.SIGCONT))
	eventually(t, patience, "a process is left", func() bool { return len(netnsPIDs(t.Context(), n.near))+len(netnsPIDs(t.Context(), n.far)) == 0 })
	n.changed(t, before, false, true)

	run(t, n.inside(t, "near", "undo")).ends(t, 0, " may hold it: linerate undo 'exec:") // undo here
	for _, c := range []struct {
		args []string
		says []string
	}{
		{nil, []string{"was cut short on ", "it is not in place here", " may hold it: linerate undo 'exec:"}},
		{[]string{"--both", n.agent("far")}, []string{" still holds tcp.sack=off, tcp.recv_buffer_max=64 KiB, this machine does not: linerate undo 'exec:"}},
	} {
		r := run(t, n.inside(t, "near", append([]string{"set", "tcp.timestamps=off", "--for", "1s"}, c.args...)...))
		for _, says := range c.says {
			must.True(t, r.code == 0 && strings.Contains(r.err, says), "exit code %d, not %q\n%s%s", r.code, says, r.out, r.err)
		}
	}
	r := run(t, n.inside(t, "near", "set", "tcp.timestamps=off", "--for", "1s"))
	must.True(t, !strings.Contains(r.err, "cut short"), "told again\n%s", r.err)
	run(t, n.inside(t, "near", "undo", n.agent("far"))).ends(t, 0)
	n.restored(t, before)
}
