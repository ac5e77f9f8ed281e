package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/must"
)

// A job that failed is no success: what happened, how the command ends, and what its last
// words hold. Each row is one of the table in the manual, under its name.
var failures = []struct {
	name  string
	args  string // {a}, {b}: the agents of the hosts; {killed}: one that is killed in its run; {open}: a server that measures only; {full}: a disk without room
	user  bool   // without rights
	code  int
	words []string
}{
	{"the far host is lost for good", "test {killed} --to -t 20s --omit 0 --idle 0s --timeout 1s", false, 3, []string{"contact lost", "to reach the host again"}},
	{"the far host is lost for good", "run {killed} --factor window=16KiB,64KiB --direction to -t 20s --omit 0 --timeout 1s", false, 3, []string{"contact lost"}},
	{"no right to change settings", "tune {open} --dry-run", true, 4, []string{"tune can set nothing on either host", "has no root rights", "serve --allow-tune"}},
	{"no right to change settings", "run {open} --factor near.tcp.sack=on,off --dry-run", true, 4, []string{"tcp.sack cannot be set on this machine: linerate has no root rights"}},
	{"no right to change settings", "set tcp.sack=off --for 5s", true, 4, []string{"nothing can be set on this machine: linerate has no root rights"}},
	{"a server that measures only", "run {open} --factor far.tcp.sack=on,off", false, 4, []string{"tcp.sack cannot be set on", "without a key measure"}},
	{"a server that measures only", "set tcp.sack=off --for 5s {open}", false, 4, []string{"nothing can be set on", "without a key measure"}},
	{"a plan that a host does not take", "run --from {a} {b} --factor far.tcp.congestion_control=reno,nosuch", false, 4, []string{"nosuch cannot be applied", `the kernel has no "nosuch"`, "nothing was measured"}},
	{"a host that another linerate changes", "set tcp.recv_buffer_max=1MiB --for 5s {busy}", false, 3, []string{"in use by another linerate", "wait until it has ended"}},
	{"a host that another linerate changes", "set tcp.sack=off --for 5s {busy}", false, 3, []string{"has that value of tcp.sack from another linerate, which puts 1 back when it ends (process ", "wait until it has ended"}},
	{"results cannot be kept", "test {b} --to -t 1s --db {full}/results.db", false, 6, []string{"no space left", "--db PATH"}},
}

// TestFailures does each row of the table, and demands that the manual has it.
func TestFailures(t *testing.T) {
	needRoot(t)
	t.Parallel()
	manual := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "manual.md")))(t)
	for i, f := range failures {
		t.Run(fmt.Sprintf("%d %s", i, f.name), func(t *testing.T) {
			t.Parallel()
			must.Contain(t, string(manual), "\n| "+f.name+" | ", "the manual has no row %q", f.name)
			n := newNetns(t)
			text := f.args
			if strings.Contains(text, "{open}") {
				p := start(t, n.inside(t, "far", "serve", "--open", "--listen", farAddr+":5299", "--announce=false", "--state", filepath.Join(n.dir, "serve")))
				eventually(t, patience, "the server", func() bool { return strings.Contains(p.said(), "listening on") })
			}
			if strings.Contains(text, "{busy}") {
				p := start(t, n.inside(t, "near", "set", "tcp.sack=off", "--for", "2m", n.agent("far")))
				eventually(t, patience, "the other linerate", func() bool { return strings.Contains(n.knobs(t, "far").sack, "0") })
				defer p.signal(t, os.Interrupt)
			}
			args := strings.Fields(text)
			for i := range args {
				args[i] = map[string]string{"{a}": n.agent("near"), "{b}": n.agent("far"), "{busy}": n.agent("far"), "{open}": farAddr + ":5299", "{killed}": n.mortal(t)}[args[i]]
				if args[i] == "" {
					args[i] = strings.ReplaceAll(strings.Fields(text)[i], "{full}", n.full(t))
				}
			}
			cmd := n.inside(t, "near", args...)
			if f.user {
				cmd = n.asUser(t, args...)
			}
			r := run(t, cmd).ends(t, f.code)
			has(t, "stderr", r.err, f.words...)
		})
	}
}

// mortal is an agent in the far host that is killed as soon as it answers a run, and none
// follows it.
func (n *netns) mortal(t *testing.T) string {
	t.Helper()
	once := filepath.Join(n.dir, "mortal")
	script := fmt.Sprintf(`#!/bin/sh
[ -e %[1]s.dead ] && { echo "the host is down" >&2; exit 255; }
(while ! ip netns exec %[2]s ss -Htn state established | grep -q .; do sleep 0.05; done; touch %[1]s.dead; kill -9 $$) &
exec ip netns exec %[2]s %[3]s agent --state %[4]s
`, once, n.far, binary, n.state("far"))
	if err := os.WriteFile(once, []byte(script), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	return "exec:" + farAddr + " " + once
}

// full is a directory on a disk that has no room left.
func (n *netns) full(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(n.dir, "full")
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	} else if err != nil {
		return dir
	}
	must.Do(t, syscall.Mount("none", dir, "tmpfs", 0, "size=64k,mode=700"))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	must.Do(t, os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 64<<10-8<<10), 0o600))
	return dir
}

// asUser prepares linerate in the near host for a user without rights.
func (n *netns) asUser(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	must.Do(t, os.Mkdir(home, 0o700))
	must.Do(t, os.Chown(home, 65534, 65534))
	for dir := filepath.Dir(home); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the user has to get in
			t.Fatal(err)
		}
	}
	program := filepath.Join(filepath.Dir(home), "linerate")
	must.Do(t, os.Link(binary, program))
	argv := append([]string{"netns", "exec", n.near, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "env", "HOME=" + home, program}, args...)
	cmd := n.prepare(exec.CommandContext(t.Context(), "ip", argv...))
	cmd.Env = append(cmd.Env, "LINERATE_DB="+filepath.Join(home, "r.db"), "LINERATE_STATE="+filepath.Join(home, "state"), "LINERATE_CONFIG="+filepath.Join(home, "config"))
	return cmd
}
