package main

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"linerate/internal/must"
)

// What linerate keep does when it is this test binary.
const (
	keepStepsVar = "LINERATE_KEEP_STEPS" // file to which the name of every step goes
	keepKillVar  = "LINERATE_KEEP_KILL"  // N: it kills itself after step N, 1…
)

// keepPoint returns what this process does after each step of writing files, nil
// without the variables.
func keepPoint() func(step string) {
	log := os.Getenv(keepStepsVar)
	at, _ := strconv.Atoi(os.Getenv(keepKillVar))
	if log == "" && at == 0 {
		return nil
	}
	n := 0
	return func(step string) {
		n++
		if log != "" {
			f, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				panic(err)
			}
			fmt.Fprintln(f, step)
			_ = f.Close()
		}
		if n != at {
			return
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil || self.Kill() != nil {
			panic("cannot kill itself")
		}
		select {} // until it arrives
	}
}

// TestKeepMistakes is refused before anything is opened.
func TestKeepMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"keep"}, "linerate: there is no terminal to ask on\n  show what would be written with --dry-run; write it with --yes\n"},
		{[]string{"keep", "--both", "--yes"}, "linerate: --both names no HOST\n  linerate keep [SOURCE] --both HOST\n"},
		{[]string{"keep", "a", "b", "c"}, "linerate: keep takes a profile or a session, and at most one HOST, got [\"a\" \"b\" \"c\"]\n  see linerate keep --help\n"},
		{[]string{"keep", "root@nas", "last", "--yes"}, "linerate: keep: \"root@nas\" is a host\n  the profile or session comes first: linerate keep last root@nas\n"},
		{[]string{"keep", "last", "root@nas", "--interface", "eth0", "--yes"}, "linerate: --interface is for this machine alone; with HOST the interface between the two is used\n"},
		{[]string{"keep", "last", "--for", "plan9", "--yes"}, "linerate: --for: \"plan9\" is no format\n  known are linux-sysctl, systemd-networkd, netplan, networkmanager, ifupdown, freebsd, macos, windows-reg, windows-powershell, ansible\n"},
		{[]string{"keep", "last", "--list"}, "linerate: --list names no profile or session\n  linerate keep --list [HOST]\n"},
		{[]string{"keep", "nosuch.yaml", "--yes"}, "linerate: nosuch.yaml: no such file or directory\n"},
		{[]string{"keep", "--setting", "x", "--yes"}, "linerate: --setting and --role are about a session or a profile\n  linerate keep SESSION --setting NAME\n"},
	} {
		r := run(t, command(t, c.args...))
		must.True(t, r.code == 2 && r.err == c.says, "%q: exit code %d\n%s", c.args, r.code, r.err)
	}
	for host, code := range map[string]int{"lab:lan": 4, "iperf3://127.0.0.1": 4} {
		r := run(t, command(t, "keep", host, "--yes"))
		must.True(t, r.code == code, "%s: exit code %d\n%s", host, r.code, r.err)
		if r := run(t, command(t, "undo", "--kept", host)); r.code != code {
			t.Errorf("undo --kept %s: exit code %d\n%s", host, r.code, r.err)
		}
	}
}
