package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hooked are the arguments of four runs of two settings, the baseline one of them, in a
// lab, with commands around every run that write into a file.
func hooked(t testing.TB, more ...string) (args []string, log string) {
	t.Helper()
	dir := t.TempDir()
	log = filepath.Join(dir, "log")
	return append([]string{
		"run", "lab:rate=100mbit,rtt=1ms", "--factor", "far.tcp.recv_buffer_max=256KiB", "-t", "100ms", "-i", "100ms", "--omit", "0", "--settle", "0",
		"--blocks", "2", "--no-twin", "--db", filepath.Join(dir, "results.db"), "-q",
	}, more...), log
}

// TestHooksStandAroundEveryRun on both hosts: the one before sees the setting, the one
// after sees it too, and the baseline's runs have them as well. They are told among the
// changes, all of which are taken back.
func TestHooksStandAroundEveryRun(t *testing.T) {
	needLab(t)
	const held = "set -- $(cat /proc/sys/net/ipv4/tcp_rmem); "
	args, log := hooked(t)
	args = append(args, "--before", "far:"+held+"echo before $3 >>"+log, "--after", "far:"+held+"echo after $3 >>"+log, "--before", "echo near >>"+log+".near")
	r := succeed(t, args...)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	under := 0
	for i, l := range lines {
		when, most, _ := strings.Cut(l, " ")
		if want := []string{"before", "after"}[i%2]; when != want || i%2 == 1 && !strings.HasSuffix(lines[i-1], " "+most) {
			t.Errorf("line %d: %s", i+1, l)
		}
		if most == "262144" {
			under++
		}
	}
	if len(lines) != 8 || under != 4 {
		t.Errorf("%d lines, %d of them under the setting:\n%s", len(lines), under, text)
	}
	if near, _ := os.ReadFile(log + ".near"); strings.Count(string(near), "near") != 4 {
		t.Errorf("near: %q", near)
	}
	if !strings.Contains(r.out, "all undone") {
		t.Errorf("says\n%s", r.out)
	}
	if err := validate("linerate/session/v3", succeed(t, "show", "last", "--json", "--db", filepath.Join(filepath.Dir(log), "results.db")).out); err != nil {
		t.Error(err)
	}
}

// TestHookThatFails makes its run invalid, which says so; its block is tried again, and
// where all are invalid nothing is told.
func TestHookThatFails(t *testing.T) {
	needLab(t)
	args, log := hooked(t)
	once := "test -e " + log + " || { touch " + log + "; echo not ready; exit 3; }"
	succeed(t, append(args, "--before", once)...)
	db := filepath.Join(filepath.Dir(log), "results.db")
	shown := succeed(t, "show", "last", "--json", "--db", db).out
	for _, want := range []string{`"state": "invalid"`, "the hook before the run failed", "exit status 3: not ready"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in the session", want)
		}
	}
	args, _ = hooked(t, "--before", "far:exit 4", "--command-time", "5s")
	if r := run(t, command(t, args...)); r.code == 0 || !strings.Contains(r.err, "all 6 runs are invalid") || !strings.Contains(r.err, "exit code 4") {
		t.Errorf("always: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	args, _ = hooked(t, "--before", "sleep 30", "--command-time", "200ms")
	if r := run(t, command(t, args...)); r.code == 0 || !strings.Contains(r.err, "ended after its limit of 200 ms") {
		t.Errorf("too long: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	args, _ = hooked(t, "--after", "exit 5")
	if r := run(t, command(t, args...)); r.code == 0 || !strings.Contains(r.err, "exit code 5") {
		t.Errorf("after: exit code %d\n%s%s", r.code, r.out, r.err)
	}
}

// TestHookIsRefused like a command of a factor: by an agent that was not told to take
// them, and out of a plan file that somebody else may have written.
func TestHookIsRefused(t *testing.T) {
	needRoot(t)
	n := newNetns(t)
	mark := filepath.Join(n.dir, "mark")
	args := []string{"run", "--from", n.agent("a"), "--far", n.agent("b"), "--factor", "window=16KiB,64KiB", "-t", "0.1s", "--blocks", "1", "--before", "far:touch " + mark}
	if r := run(t, n.command(t, args...)); r.code != 2 || !strings.Contains(r.err, "linerate agent --allow-commands") {
		t.Errorf("an agent: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	file := filepath.Join(n.dir, "plan.yaml")
	plan := "far: lab:lan\nfactors: [{knob: window, levels: [16KiB, 64KiB]}]\nhooks: [{after: 'touch " + mark + "'}]\n"
	if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, n.command(t, "run", file, "--blocks", "1")); r.code != 2 || !strings.Contains(r.err, "wants to run a command: touch") {
		t.Errorf("a file: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	if _, err := os.Stat(mark); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was run: %v", err)
	}
}
