package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// switched are the arguments of an experiment with a command on the far host, which leaves
// the file on there while it is on.
func (n *netns) switched(far string, more ...string) (args []string, on string) {
	on = filepath.Join(n.dir, "on")
	return append([]string{
		"run", "--from", n.agent("near"), "--far", far, "--factor", "far.cmd:shaper=echo $$ >" + on, "--undo", "shaper=rm -f " + on,
		"-t", "0.1s", "-i", "0.1s", "--omit", "0s", "--settle", "1s", "--blocks", "2", "--no-twin", "--seed", "7",
	}, more...), on
}

// TestCommandIsUndone whoever ends while it is on: Ctrl-C, or kill -9 of the controller,
// the far agent, its watchdog, or all that runs on the far host, whose next start does it.
func TestCommandIsUndone(t *testing.T) {
	t.Parallel()
	needRoot(t)
	cases := map[string]func(*testing.T){}
	for _, who := range []string{"ctrl-c", "controller", "agent-far", "watchdog-far", "far-host"} {
		cases[who] = func(t *testing.T) {
			n := newNetns(t)
			args, on := n.switched(n.agent("far") + " --allow-commands")
			p := start(t, n.command(t, args...))
			there := func() bool { _, err := os.Stat(on); return err == nil }
			eventually(t, patience, "the command to be run", there)
			if who == "ctrl-c" {
				p.signal(t, os.Interrupt)
			}
			for _, pid := range relatives(p.cmd.Process.Pid, n.dir).members(who) {
				orPanic(syscall.Kill(pid, syscall.SIGKILL))
			}
			r := p.wait(t, patience)
			must.True(t, who != "ctrl-c" || r.code == 130 && strings.Contains(r.err, "--resume") && strings.Contains(r.err, "--allow-exec"), "exit code %d\n%s", r.code, r.err)
			eventually(t, patience, "the command to be undone", func() bool { return !there() && len(netnsPIDs(t.Context(), n.far)) == 0 })
			records, damage, err := journal.Read(n.state("far"))
			open := journal.OpenIntents(records)
			must.True(t, len(open) <= 0 && len(damage) <= 0 && len(records) != 0 && err == nil, "of %d records open %v, damage %v, %v", len(records), open, damage, err)
			if who != "ctrl-c" {
				return
			}
			if r := run(t, n.command(t, "run", "--resume", "last", "--from", n.agent("near"), "--far", n.agent("far")+" --allow-commands")); r.code != 2 || !strings.Contains(r.err, "wants to run a command: echo") {
				t.Errorf("resumed unasked: exit code %d\n%s%s", r.code, r.out, r.err)
			}
			if r := run(t, n.command(t, "run", "--resume", "last", "--allow-exec")); r.code != 0 || !strings.Contains(r.out, "changes on") || there() {
				t.Errorf("resumed: exit code %d, on %t\n%s%s", r.code, there(), r.out, r.err)
			}
		}
	}
	beside(t, cases)
}

// TestCommandIsRefused where the owner of the host did not allow it: an agent that was
// not told so, and a server, also for a key that may change settings.
func TestCommandIsRefused(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	args, on := n.switched(n.agent("far"))
	run(t, n.command(t, args...)).ends(t, 2, "linerate agent --allow-commands") // an agent
	server, first := n.serve(t, "--allow-tune")
	_, ops := n.addKey(t, "ops", "--right", "tune")
	for who, link := range map[string]string{"may measure": first.String(), "may tune": ops} {
		args, _ := n.switched(link)
		args = append(args[:1], args[3:]...) // the near end is this host
		if r := run(t, n.inside(t, "near", args...)); r.code != 4 || strings.Contains(r.out, "changes on") {
			t.Errorf("a key that %s: exit code %d\n%s%s", who, r.code, r.out, r.err)
		} else if who == "may tune" && !strings.Contains(r.err, "runs no commands of its controller") {
			t.Errorf("says\n%s", r.err)
		}
	}
	server.signal(t, syscall.SIGTERM)
	server.wait(t, patience)
	must.Is(t, must.Err(os.Stat(on)), fs.ErrNotExist, "it was run")
	server, _ = n.serve(t, "--allow-tune", "--allow-commands", "--open")
	args, _ = n.switched(ops, "--settle", "0s", "-q")
	run(t, n.inside(t, "near", append(args[:1], args[3:]...)...)).ends(t, 0).prints(t, " changes on ")
	must.OK(t, validate("linerate/session/v1", succeed(t, "show", "last", "--json", "--db", n.db()).out))
	server.signal(t, syscall.SIGTERM)
	server.wait(t, patience)
	must.Is(t, must.Err(os.Stat(on)), fs.ErrNotExist, "it is still on")
}
