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

// switched returns the arguments of an experiment with a command on the far host, during which
// the file on exists there.
func (n *netns) switched(far string, more ...string) (args []string, on string) {
	on = filepath.Join(n.dir, "on")
	return append([]string{
		"run", "--from", n.agent("near"), "--far", far, "--factor", "far.cmd:shaper=echo $$ >" + on, "--undo", "shaper=rm -f " + on,
		"-t", "0.1s", "-i", "0.1s", "--omit", "0s", "--settle", "1s", "--blocks", "2", "--no-twin", "--seed", "7",
	}, more...), on
}

// TestCommandIsUndone whatever ends during it: by Ctrl-C, or kill -9 of the controller, the far
// agent, its watchdog, or all processes on the far host, whose next start undoes it.
func TestCommandIsUndone(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*testing.T){}
	for _, who := range []string{"ctrl-c", "controller", "agent-far", "watchdog-far", "far-host"} {
		cases[who] = func(t *testing.T) {
			n := newNetns(t)
			args, on := n.switched(n.agent("far") + " --allow-commands")
			p := start(t, n.command(t, args...))
			there := func() bool { _, err := os.Stat(on); return err == nil }
			must.Until(t, "the command to be run", there)
			if who == "ctrl-c" {
				p.signal(t, os.Interrupt)
			}
			for _, pid := range relatives(p.cmd.Process.Pid, n.dir).members(who) {
				orPanic(syscall.Kill(pid, syscall.SIGKILL))
			}
			r := p.wait(t, patience)
			must.True(t, who != "ctrl-c" || r.code == 130 && strings.Contains(r.err, "--resume") && strings.Contains(r.err, "--allow-exec"), "exit code %d\n%s", r.code, r.err)
			must.Until(t, "the command to be undone", func() bool { return !there() && len(netnsPIDs(n.far)) == 0 })
			records, damage, err := journal.Read(n.state("far"))
			open := journal.OpenIntents(records)
			must.True(t, len(open) <= 0 && len(damage) <= 0 && len(records) != 0 && err == nil, "of %d records open %v, damage %v, %v", len(records), open, damage, err)
			if who != "ctrl-c" {
				return
			}
			r = run(t, n.command(t, "run", "--resume", "last", "--from", n.agent("near"), "--far", n.agent("far")+" --allow-commands"))
			must.True(t, r.code == 2 && strings.Contains(r.err, "wants to run a command: echo"), "resumed unasked: exit code %d\n%s%s", r.code, r.out, r.err)
			r = run(t, n.command(t, "run", "--resume", "last", "--allow-exec"))
			must.True(t, r.code == 0 && strings.Contains(r.out, "changes on") && !there(), "resumed: exit code %d, on %t\n%s%s", r.code, there(), r.out, r.err)
		}
	}
	beside(t, cases)
}

// TestCommandIsRefused unless the owner of the host allowed it: by an agent without the flag, and
// by a server, even for a key that may change settings.
func TestCommandIsRefused(t *testing.T) {
	n := netnsBeside(t)
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

// hooked returns the arguments of four runs of two settings, one of them the baseline, in a lab,
// with commands around every run that write into a file.
func hooked(t testing.TB, more ...string) (args []string, log string) {
	t.Helper()
	dir := t.TempDir()
	log = filepath.Join(dir, "log")
	return append([]string{
		"run", "lab:rate=100mbit,rtt=1ms", "--factor", "far.tcp.recv_buffer_max=256KiB", "-t", "100ms", "-i", "100ms", "--omit", "0", "--settle", "0",
		"--blocks", "2", "--no-twin", "--db", filepath.Join(dir, "results.db"), "-q",
	}, more...), log
}

// TestHooksStandAroundEveryRun on both hosts: the commands before and after a run both see the
// setting, and the baseline's runs have them as well. They are listed among the changes, all of
// which are undone.
func TestHooksStandAroundEveryRun(t *testing.T) {
	labBeside(t)
	const held = "set -- $(cat /proc/sys/net/ipv4/tcp_rmem); "
	args, log := hooked(t)
	args = append(args, "--before", "far:"+held+"echo before $3 >>"+log, "--after", "far:"+held+"echo after $3 >>"+log, "--before", "echo near >>"+log+".near")
	r := succeed(t, args...)
	text := must.Get(os.ReadFile(log))(t)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	under := 0
	for i, l := range lines {
		when, most, _ := strings.Cut(l, " ")
		must.True(t, when == []string{"before", "after"}[i%2] && (i%2 != 1 || strings.HasSuffix(lines[i-1], " "+most)), "line %d: %s", i+1, l)
		if most == "262144" {
			under++
		}
	}
	// Two blocks of two runs; a busy machine may repeat a block.
	must.True(t, len(lines) >= 8 && len(lines)%2 == 0 && under >= 4 && under < len(lines), "%d lines, %d of them under the setting:\n%s", len(lines), under, text)
	near, _ := os.ReadFile(log + ".near")
	must.Equal(t, strings.Count(string(near), "near"), len(lines)/2)
	must.Contain(t, r.out, "all undone", "says")
	must.OK(t, validate("linerate/session/v1", succeed(t, "show", "last", "--json", "--db", filepath.Join(filepath.Dir(log), "results.db")).out))
}

// TestHookThatFails: a failing hook makes its run invalid with the reason; the block is repeated,
// and a session without a valid run has no result.
func TestHookThatFails(t *testing.T) {
	labBeside(t)
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

// TestHookIsRefused like a command of a factor: by an agent without the flag, and in a plan file
// that another person may have written.
func TestHookIsRefused(t *testing.T) {
	n := netnsBeside(t)
	mark := filepath.Join(n.dir, "mark")
	args := []string{"run", "--from", n.agent("near"), "--far", n.agent("far"), "--factor", "window=16KiB,64KiB", "-t", "0.1s", "--blocks", "1", "--before", "far:touch " + mark}
	run(t, n.command(t, args...)).ends(t, 2, "linerate agent --allow-commands") // an agent
	file := filepath.Join(n.dir, "plan.yaml")
	must.Do(t, os.WriteFile(file, []byte("far: lab:lan\nfactors: [{knob: window, levels: [16KiB, 64KiB]}]\nhooks: [{after: 'touch "+mark+"'}]\n"), 0o600))
	run(t, n.command(t, "run", file, "--blocks", "1")).ends(t, 2, "wants to run a command: touch") // a file
	must.Is(t, must.Err(os.Stat(mark)), fs.ErrNotExist, "it was run")
}

// TestARefusalIsToldOnce: what a driver lacks or refuses is printed once, by the error, and
// neither before nor beside it.
func TestARefusalIsToldOnce(t *testing.T) {
	n := netnsBeside(t)
	for setting, c := range map[string]struct{ says, out string }{
		// veth reports no flow control, and accepts no link mode.
		"nic.pause.rx=off":    {"the driver has no such setting", ""},
		"nic.media.speed=100": {"the driver has no such setting", "undone: all settings are back\n"},
		"nic.offload.lro=on":  {"the driver holds it fixed", "undone: all settings are back\n"},
	} {
		r := run(t, n.inside(t, "near", "set", setting, "--interface", "v0", "--for", "1s", "--state", n.state("near")))
		said := r.out + r.err
		for _, once := range []string{c.says, "unsupported operation", " of v0"} {
			must.True(t, strings.Count(said, once) == 1, "%s: %q is said %d times:\n%s", setting, once, strings.Count(said, once), said)
		}
		must.True(t, r.code == 4 && strings.HasSuffix(r.out, c.out) && (c.out != "" || r.out == ""), "%s: exit code %d\n%s\n%s", setting, r.code, r.out, r.err)
	}
}
