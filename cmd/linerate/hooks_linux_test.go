package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/must"
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
	t.Parallel()
	needLab(t)
	const held = "set -- $(cat /proc/sys/net/ipv4/tcp_rmem); "
	args, log := hooked(t)
	args = append(args, "--before", "far:"+held+"echo before $3 >>"+log, "--after", "far:"+held+"echo after $3 >>"+log, "--before", "echo near >>"+log+".near")
	r := succeed(t, args...)
	text := must.Get(os.ReadFile(log))(t)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	under := 0
	for i, l := range lines {
		when, most, _ := strings.Cut(l, " ")
		want := []string{"before", "after"}[i%2]
		must.True(t, when == want && (i%2 != 1 || strings.HasSuffix(lines[i-1], " "+most)), "line %d: %s", i+1, l)
		if most == "262144" {
			under++
		}
	}
	// Two blocks of two runs; a busy machine may have a block done again.
	must.True(t, len(lines) >= 8 && len(lines)%2 == 0 && under >= 4 && under < len(lines), "%d lines, %d of them under the setting:\n%s", len(lines), under, text)
	near, _ := os.ReadFile(log + ".near")
	must.Equal(t, strings.Count(string(near), "near"), len(lines)/2)
	must.Contain(t, r.out, "all undone", "says")
	must.OK(t, validate("linerate/session/v1", succeed(t, "show", "last", "--json", "--db", filepath.Join(filepath.Dir(log), "results.db")).out))
}

// TestHookThatFails: a hook that fails makes its run invalid with the reason; the block is
// repeated, and a session without a valid run has no result.
func TestHookThatFails(t *testing.T) {
	t.Parallel()
	needLab(t)
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		args, log := hooked(t)
		once := "test -e " + log + " || { touch " + log + "; echo not ready; exit 3; }"
		succeed(t, append(args, "--before", once)...)
		shown := succeed(t, "show", "last", "--json", "--db", filepath.Join(filepath.Dir(log), "results.db")).out
		has(t, "the session", shown, `"state": "invalid"`, "the hook before the run failed", "exit status 3: not ready")
	})
	for name, c := range map[string]struct{ flags, says []string }{
		"always":   {[]string{"--before", "far:exit 4", "--command-time", "1m"}, []string{"runs are invalid", "exit code 4"}},
		"too long": {[]string{"--before", "sleep 30", "--command-time", "200ms"}, []string{"ended after its limit of 200 ms"}},
		"after":    {[]string{"--after", "exit 5"}, []string{"exit code 5"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args, _ := hooked(t, append(c.flags, "--blocks", "1")...)
			r := run(t, command(t, args...))
			must.True(t, r.code != 0, "exit code 0")
			has(t, "stderr", r.err, c.says...)
		})
	}
}

// TestHookIsRefused like a command of a factor: by an agent that was not told to take
// them, and out of a plan file that somebody else may have written.
func TestHookIsRefused(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	mark := filepath.Join(n.dir, "mark")
	args := []string{"run", "--from", n.agent("near"), "--far", n.agent("far"), "--factor", "window=16KiB,64KiB", "-t", "0.1s", "--blocks", "1", "--before", "far:touch " + mark}
	run(t, n.command(t, args...)).ends(t, 2, "linerate agent --allow-commands") // an agent
	file := filepath.Join(n.dir, "plan.yaml")
	plan := "far: lab:lan\nfactors: [{knob: window, levels: [16KiB, 64KiB]}]\nhooks: [{after: 'touch " + mark + "'}]\n"
	must.Do(t, os.WriteFile(file, []byte(plan), 0o600))
	run(t, n.command(t, "run", file, "--blocks", "1")).ends(t, 2, "wants to run a command: touch") // a file
	must.Is(t, must.Err(os.Stat(mark)), fs.ErrNotExist, "it was run")
}
