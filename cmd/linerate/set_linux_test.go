package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hinshun/vt10x"
	"golang.org/x/sys/unix"

	"linerate/internal/must"
)

// setArgs returns a change of two settings.
func setArgs(more ...string) []string {
	return append([]string{"set", "tcp.sack=off", "tcp.recv_buffer_max=64KiB"}, more...)
}

// changed waits until the hosts have a change, or not, as a and b say.
func (n *netns) changed(t testing.TB, a, b bool) {
	t.Helper()
	must.Until(t, "the change", func() bool {
		now := n.bothKnobs(t)
		return (now.near.sack != n.before.near.sack && now.near.rmem != n.before.near.rmem) == a && (now.far.sack != n.before.far.sack && now.far.rmem != n.before.far.rmem) == b
	})
}

// held starts cmd, a linerate set, waits until it holds its change, and interrupts it: all
// settings are restored.
func held(t testing.TB, cmd *exec.Cmd, changed func() bool) result {
	t.Helper()
	p := start(t, cmd)
	must.Until(t, "the change", func() bool { return changed() || len(p.done) > 0 })
	p.signal(t, os.Interrupt)
	r := p.wait(t, patience)
	must.True(t, r.code == 130 && strings.Contains(r.out+r.err, "all settings are back"), "exit code %d\n%s%s", r.code, r.out, r.err)
	return r
}

// TestSetWithoutTerminal holds a change for its time on one host, on the other and on both, and
// undoes it.
func TestSetWithoutTerminal(t *testing.T) {
	t.Parallel()
	beside(t, map[string]func(*testing.T){
		"here": func(t *testing.T) { setHeld(t, 2, func(*netns) []string { return nil }) },
		"far":  func(t *testing.T) { setHeld(t, 2, func(n *netns) []string { return []string{n.agent("far")} }) },
		"both": func(t *testing.T) {
			setHeld(t, 4, func(n *netns) []string { return []string{"--both", n.agent("far")} })
		},
	})
}

func setHeld(t testing.TB, changes int, more func(*netns) []string) {
	n := newNetns(t)
	r := run(t, n.inside(t, "near", setArgs(append(more(n), "--for", "1s", "--json")...)...))
	n.restored(t)
	r.ends(t, 0, "held for 1 s, then it goes back: to keep it takes a terminal")
	err := validate("linerate/set/v1", r.out)
	must.True(t, err == nil, "%v\n%s", err, r.out)
	must.Equal(t, strings.Count(r.out, `"state": "undone"`), changes, "not %d changes undone\n%s", changes, r.out)
}

// TestSetFaults requires that nothing is written if anything is wrong on one of the hosts, and
// that all faults are reported.
func TestSetFaults(t *testing.T) {
	n := netnsBeside(t)
	r := run(t, n.inside(t, "near", setArgs("tcp.recv_buffer_initial=1MiB", "link.mtu_max=9000", "--both", n.agent("far"))...))
	must.True(t, r.code == 2 && strings.Count(r.err, "(C-05: ") == 2 && strings.Count(r.err, "link.mtu_max: a fact of the machine") == 2, "exit code %d\n%s%s", r.code, r.out, r.err)
	n.restored(t)
	r = run(t, n.inside(t, "near", "set", "tcp.sack=on", n.agent("far")))
	must.True(t, r.code == 0 && r.out == "nothing to do: all of it holds already\n", "what holds already: exit code %d\n%s%s", r.code, r.out, r.err)
	entries, _ := filepath.Glob(n.state("far") + "/journal*")
	must.True(t, len(entries) == 0, "a journal was begun: %q", entries)
}

// TestSetOnOneHostFails: one of two hosts cannot write a journal, so the other one undoes.
func TestSetOnOneHostFails(t *testing.T) {
	t.Parallel()
	beside(t, map[string]func(*testing.T){
		"near": func(t *testing.T) {
			n := newNetns(t)
			cmd := n.inside(t, "near", setArgs("--both", n.agent("far"), "--json")...)
			cmd.Env = append(cmd.Env, "LINERATE_STATE=/dev/null/none")
			r := run(t, cmd)
			n.restored(t)
			r.ends(t, 4, "/dev/null/none", "all settings are back")
			must.Equal(t, strings.Count(r.out, `"state": "undone"`), 2, "the far host was not changed before\n%s", r.out)
		},
		"far": func(t *testing.T) {
			n := newNetns(t)
			bad := strings.Replace(n.agent("far"), "--state "+n.state("far"), "--state /dev/null/none", 1)
			r := run(t, n.inside(t, "near", setArgs("--both", bad)...))
			n.restored(t)
			r.ends(t, 4, "/dev/null/none")
		},
	})
}

// terminal is a linerate on its own terminal.
type terminal struct {
	*process
	master *os.File
	shown  *lines
	screen vt10x.Terminal // the visible content
	held   []byte         // incomplete character at the end
}

// onTerminal starts cmd as the leader of a session with a new terminal, pty(7), after prepare.
func onTerminal(t testing.TB, cmd *exec.Cmd, prepare ...func(*terminal)) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	must.SkipIf(t, err != nil, "no terminals here: %v", err)
	raw := must.Get(master.SyscallConn())(t) // Fd would make reads block Close
	var number int
	var numberErr, unlockErr error
	err = raw.Control(func(fd uintptr) {
		number, numberErr = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		unlockErr = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
	})
	must.Do(t, errors.Join(err, numberErr, unlockErr))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must.SkipIf(t, err != nil, "no terminals here: %v", err)
	tt := &terminal{process: &process{cmd: cmd, done: make(chan result, 1)}, master: master, shown: &lines{}, screen: vt10x.New(vt10x.WithSize(80, 24))}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	for _, p := range prepare {
		p(tt)
	}
	must.Do(t, cmd.Start())
	_ = slave.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 1024)
		for {
			k, err := master.Read(b) // EIO after the last process has closed it
			_, _ = tt.shown.Write(b[:k])
			tt.draw(b[:k])
			if err != nil {
				return
			}
		}
	}()
	go func() {
		_ = cmd.Wait() // the exit code shows it
		<-read         // the last words are still in the terminal
		tt.done <- result{out: tt.shown.String(), code: cmd.ProcessState.ExitCode()}
	}()
	t.Cleanup(func() { _ = master.Close() })
	return tt
}

// asked waits for the prompt and types the answer.
func (tt *terminal) asked(t testing.TB, answer string) {
	t.Helper()
	must.Until(t, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it? [y/N]") })
	must.Get(tt.master.WriteString(answer))(t)
}

// TestSetOnTerminal answers the prompt in every possible way.
func TestSetOnTerminal(t *testing.T) {
	t.Parallel()
	interrupted := func(t *testing.T, tt *terminal) { tt.asked(t, "\x03") }
	cases := map[string]struct {
		act  func(*testing.T, *terminal)
		time string
		code int
		says string
	}{
		"declined":        {func(t *testing.T, tt *terminal) { tt.asked(t, "n\n") }, "10m", 0, "undone: not confirmed"},
		"return":          {func(t *testing.T, tt *terminal) { tt.asked(t, "\n") }, "10m", 0, "undone: not confirmed"},
		"end of file":     {func(t *testing.T, tt *terminal) { tt.asked(t, "\x04") }, "10m", 0, "undone: not confirmed"},
		"no answer":       {func(t *testing.T, tt *terminal) { tt.asked(t, "") }, "2s", 1, "not confirmed within 2 s: all settings are back"},
		"Ctrl-C":          {interrupted, "10m", 130, "stopped by the user: all settings are back"},
		"terminal closed": {func(t *testing.T, tt *terminal) { tt.asked(t, ""); _ = tt.master.Close() }, "10m", 130, ""},
		"killed":          {func(t *testing.T, tt *terminal) { tt.asked(t, ""); tt.signal(t, syscall.SIGKILL) }, "10m", -1, ""},
	}
	all := map[string]func(*testing.T){}
	for name, c := range cases {
		all[name] = func(t *testing.T) {
			n := newNetns(t)
			tt := onTerminal(t, n.inside(t, "near", setArgs("--both", n.agent("far"), "--for", c.time)...))
			if name != "no answer" { // which may be undone already
				n.changed(t, true, true)
			}
			c.act(t, tt)
			r := tt.wait(t, patience)
			n.restored(t)
			// A terminal that hangs up is a signal and the end of its input, in any order.
			must.True(t, r.code == c.code || name == "terminal closed" && r.code == 0, "exit code %d\n%s", r.code, r.out)
			// The last output may come after the process has ended.
			must.Until(t, "the terminal to say "+c.says, func() bool { return strings.Contains(tt.shown.String(), c.says) })
		}
	}
	beside(t, all)
}

// TestSetConfirmed keeps a change, which then survives other sessions, and undoes it with undo on
// each host.
func TestSetConfirmed(t *testing.T) {
	n := netnsBeside(t)
	far := n.agent("far")
	tt := onTerminal(t, n.inside(t, "near", setArgs("--both", far)...))
	tt.asked(t, "y\n")
	tt.wait(t, patience).succeeds(t)
	must.Until(t, "the terminal to tell it", func() bool { return strings.Contains(tt.shown.String(), "confirmed: it stays until") })
	gone := func() bool { return len(netnsPIDs(n.near, n.far)) == 0 }
	must.Until(t, "a process is left", gone)
	n.changed(t, true, true)

	// Other sessions on both hosts neither undo nor lose it.
	run(t, n.inside(t, "near", "set", "tcp.timestamps=off", "--both", far, "--for", "1s")).ends(t, 0) // another change
	must.Until(t, "a process is left", gone)
	n.changed(t, true, true)

	r := run(t, n.inside(t, "near", "undo", far))
	must.True(t, r.code == 0 && strings.Count(r.out, ": back to ") == 2, "undo HOST: exit code %d\n%s%s", r.code, r.out, r.err)
	n.changed(t, true, false)
	r = run(t, n.inside(t, "near", "undo", "--json"))
	err := validate("linerate/undo/v1", r.out)
	must.True(t, err == nil && r.code == 0 && strings.Count(r.out, `"undone"`) == 2, "undo: exit code %d, %v\n%s%s", r.code, err, r.out, r.err)
	n.restored(t)
	must.Equal(t, run(t, n.inside(t, "near", "undo")).out, "nothing to undo\n", "second undo")
}

// TestSetUnreachableAfterwards: a host accepts no second connection, so a confirmed change is not
// kept.
func TestSetUnreachableAfterwards(t *testing.T) {
	n := netnsBeside(t)
	once := filepath.Join(n.dir, "once.sh")
	_, command, _ := strings.Cut(n.agent("far"), " ")
	must.Do(t, os.WriteFile(once, []byte(fmt.Sprintf("#!/bin/sh\nmkdir %s/once || exit 1\nexec %s\n", n.dir, command)), 0o700))
	tt := onTerminal(t, n.inside(t, "near", setArgs("--both", "exec:"+farAddr+" "+once)...))
	tt.asked(t, "y\n")
	r := tt.wait(t, patience)
	n.restored(t)
	r.ends(t, 3)
	must.Until(t, "the terminal to tell it", func() bool {
		return strings.Contains(tt.shown.String(), "no new connection: ") && strings.Contains(tt.shown.String(), "all settings are back")
	})
}

// TestSetTwice: a second controller interferes: it is refused, and the first one goes on.
func TestSetTwice(t *testing.T) {
	n := netnsBeside(t)
	p := start(t, n.inside(t, "near", setArgs("--for", "10m", n.agent("far"))...))
	n.changed(t, false, true)
	r := run(t, n.inside(t, "near", "set", "tcp.sack=on", "tcp.timestamps=off", "--for", "1s", n.agent("far")))
	must.True(t, r.code == 3 && strings.Contains(r.err, "in use by another linerate (process ") && strings.Contains(r.err, "another linerate changes that host: wait until it has ended"), "exit code %d\n%s%s", r.code, r.out, r.err)
	must.Equal(t, strings.Count(r.err, "undo: "), 1, "lines about the undo that waits: %s", r.err)
	n.changed(t, false, true)
	p.signal(t, os.Interrupt)
	p.wait(t, patience).ends(t, 130, "stopped by the user: all settings are back") // the first one
	n.restored(t)
}

// TestSetLosesAHost kills the far agent, or lets another program change a setting, while a
// change of both is held.
func TestSetLosesAHost(t *testing.T) {
	t.Parallel()
	beside(t, map[string]func(*testing.T){
		"agent killed": func(t *testing.T) {
			n := newNetns(t)
			p := start(t, n.inside(t, "near", setArgs("--for", "10m", "--both", n.agent("far"))...))
			n.changed(t, true, true)
			agent := relatives(p.cmd.Process.Pid, n.dir).agentFar
			must.Need(t, agent != 0, "no agent on the far host")
			must.Do(t, syscall.Kill(agent, syscall.SIGKILL))
			r := p.wait(t, patience)
			n.restored(t)
			r.ends(t, 3, "all settings are back")
		},
		"changed by another program": func(t *testing.T) {
			n := newNetns(t)
			p := start(t, n.inside(t, "near", setArgs("--for", "10m", "--both", n.agent("far"))...))
			n.changed(t, true, true)
			ip(t, "netns", "exec", n.far, "sh", "-c", "echo '4096 65536 99999' > "+rmem)
			r := p.wait(t, patience)
			r.ends(t, 1, "99999", "another program").prints(t, "changed by another program meanwhile, left alone")
			must.True(t, !strings.Contains(r.out+r.err, "settings are back: ") && !strings.HasSuffix(strings.TrimSpace(r.out), "settings are back"), "%s%s", r.out, r.err)
			n.before.far.rmem = "4096\t65536\t99999"
			n.restored(t)
		},
	})
}

// mtu returns the MTU of a host's link.
func (n *netns) mtu(t testing.TB, host string) string {
	t.Helper()
	return n.mtuOf(t, host, "v0")
}

func (n *netns) mtuOf(t testing.TB, host, link string) string {
	t.Helper()
	mtu := 0
	must.Do(t, inNetns(n.name(host), func() error {
		l, err := net.InterfaceByName(link)
		if err == nil {
			mtu = l.MTU
		}
		return err
	}))
	return strconv.Itoa(mtu)
}

// TestSetMTU raises the MTU on one side of a link whose other end takes no more than before: full
// packets are lost, and the change is undone at once. On both sides it succeeds.
func TestSetMTU(t *testing.T) {
	t.Parallel()
	beside(t, map[string]func(*testing.T){
		"one side": func(t *testing.T) {
			n := newNetns(t)
			r := run(t, n.inside(t, "near", "set", "link.mtu=9000", "--for", "5m", n.agent("far")))
			must.True(t, r.code == 1 && strings.Contains(r.err, " has an MTU of 1500 and drops larger packets silently") && strings.Contains(r.err, "link.mtu=1500 fits") && strings.Contains(r.err, "all settings are back"), "exit code %d\n%s%s", r.code, r.out, r.err)
			must.Equal(t, n.mtu(t, "far"), "1500", "MTU")
		},
		"here": func(t *testing.T) { // with the user's canary, and the gateway
			n := newNetns(t)
			ip(t, "-n", n.near, "route", "add", "default", "via", farAddr)
			for _, canary := range []string{nearAddr, farAddr} { // this host's own address always answers
				r := run(t, n.inside(t, "near", "set", "link.mtu=9000", "--interface", "v0", "--for", "10m", "--canary", canary, "--json"))
				err := validate("linerate/set/v1", r.out)
				must.True(t, err == nil && r.code == 1 && strings.Contains(r.err, farAddr+" (packets of 9000 bytes) does not answer"), "exit code %d, %v\n%s%s", r.code, err, r.out, r.err)
			}
			must.Equal(t, n.mtu(t, "near"), "1500", "MTU")
		},
		"a bridge": func(t *testing.T) { // names the port that needs it too, and sets both
			n := newNetns(t)
			ip(t, "-n", n.near, "link", "add", "br0", "type", "bridge")
			ip(t, "-n", n.near, "link", "add", "p0", "type", "veth", "peer", "name", "p1")
			ip(t, "-n", n.near, "link", "set", "p0", "master", "br0")
			mtu := func(link string) string { return n.mtuOf(t, "near", link) }
			r := held(t, n.inside(t, "near", "set", "link.mtu=9000", "--interface", "br0", "--for", "10m"), func() bool { return mtu("br0") == "9000" && mtu("p0") == "9000" })
			must.True(t, strings.Contains(r.out, "mtu of p0") && mtu("br0") == "1500" && mtu("p0") == "1500", "MTU %s, of the port %s\n%s", mtu("br0"), mtu("p0"), r.out+r.err)
		},
		"both sides": func(t *testing.T) {
			n := newNetns(t)
			held(t, n.inside(t, "near", "set", "link.mtu=9000", "--both", "--for", "10m", n.agent("far")), func() bool { return n.mtu(t, "near") == "9000" && n.mtu(t, "far") == "9000" })
			must.True(t, n.mtu(t, "near") == "1500" && n.mtu(t, "far") == "1500", "MTU %s and %s", n.mtu(t, "near"), n.mtu(t, "far"))
		},
	})
}

// TestSetRoute sets a metric of the route between the hosts, which only an agent that knows its
// route can.
func TestSetRoute(t *testing.T) {
	n := netnsBeside(t)
	routes := func() string { return ip(t, "-n", n.far, "route", "show") }
	before := routes()
	held(t, n.inside(t, "near", "set", "route.initcwnd=40", "--for", "10m", n.agent("far")), func() bool { return strings.Contains(routes(), "initcwnd 40") })
	must.True(t, routes() == before, "routes %s, before %s", routes(), before)
	run(t, n.inside(t, "near", "knobs", "--match", "route.", n.agent("far"))).ends(t, 0).prints(t, "initcwnd of 10.77.0.0/24 dev v0")
}
