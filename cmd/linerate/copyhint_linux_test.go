package main

import "testing"

// TestCopyHint: who asks an open server for more than it gives is told what to ask
// for, and that is given.
func TestCopyHint(t *testing.T) {
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
		if r.code == 0 {
			t.Errorf("%v: it was given", c.args)
		}
		has(t, "the refusal", r.err, c.says...)
	}
	if r := run(t, command(t, "copy", link, "-q", "--blocks", "1", "--size", "64MiB", "--sink", "memory", "--source", "memory")); r.code != 0 {
		t.Errorf("exit code %d\n%s", r.code, r.err)
	}
}
