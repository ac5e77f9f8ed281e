package main

import (
	"testing"

	"linerate/internal/must"
)

// TestCopyHint: who asks an open server for more than it gives is told what to ask
// for, and that is given.
func TestCopyHint(t *testing.T) {
	t.Parallel()
	_, link := publicServer(t, "--open", "--limit", "memory=256MiB")
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"--size", "2GiB"}, []string{"this agent allows", "ask for less than --size 2GiB", "gives 64MiB"}},
		{[]string{"--source", "memory", "--sink", "memory", "--size", "256MiB"}, []string{"256 MiB of memory", "ask for less than --size 256MiB"}},
		{[]string{"--sink", "/tmp/x", "--size", "1MiB"}, []string{"not from or to a path", "leave --source and --sink there"}},
	} {
		r := run(t, command(t, append([]string{"copy", link, "-q", "--blocks", "1"}, c.args...)...))
		must.True(t, r.code != 0, "%v: it was given", c.args)
		has(t, "the refusal", r.err, c.says...)
	}
	run(t, command(t, "copy", link, "-q", "--blocks", "1", "--size", "64MiB", "--sink", "memory", "--source", "memory")).ends(t, 0)
}

// TestFirstHour01CopyOfNothing: a source that is missing on a real far host is found by its first
// copy there; a session in which nothing was copied ends with 5.
func TestFirstHour01CopyOfNothing(t *testing.T) {
	t.Parallel()
	r := run(t, command(t, "copy", "exec:127.0.0.1 "+binary+" agent --state "+t.TempDir(), "-q", "--reverse", "--source", "/nonexistent/file", "--blocks", "1"))
	must.True(t, r.code == 5, "exit code %d, want 5\n%s", r.code, r.err)
	has(t, "the end", r.err, "/nonexistent/file", "no such file")
}
