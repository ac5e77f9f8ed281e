package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// inNetns calls f on a thread in a network namespace, which ends with the call.
func inNetns(name string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with this goroutine
		if unix.Gettid() == os.Getpid() {
			// The first thread does not end, since it stands for the process in /proc: use
			// another thread while this one is kept busy.
			done <- inNetns(name, f)
			runtime.UnlockOSThread()
			return
		}
		ns, err := os.Open("/run/netns/" + name)
		if err == nil {
			err = errors.Join(unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET), ns.Close())
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// The settings that fault cases change, with the values that they write.
const (
	rmemKnob  = model.KnobID("tcp.recv_buffer_max")
	sackKnob  = model.KnobID("tcp.sack")
	stampKnob = model.KnobID("tcp.timestamps")
	mtuKnob   = model.KnobID("link.mtu")
)

// settings are a host's values as texts.
type settings map[model.KnobID]string

func sameSettings(a, b settings) bool { return maps.Equal(a, b) }

// settingsOf reads the settings of a host.
func settingsOf(t *testing.T, netns string) settings {
	t.Helper()
	s := settings{}
	must.Do(t, inNetns(netns, func() error {
		for id, path := range map[model.KnobID]string{rmemKnob: rmem, sackKnob: sack, stampKnob: "/proc/sys/net/ipv4/tcp_timestamps"} {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			s[id] = strings.TrimSpace(string(b))
		}
		link, err := net.InterfaceByName("v0")
		if err != nil {
			return err
		}
		s[mtuKnob] = strconv.Itoa(link.MTU)
		return nil
	}))
	return s
}

// settings reads both hosts. A missing link keeps its last value.
func (r *faultRun) settings() map[string]settings {
	r.t.Helper()
	all := map[string]settings{"near": settingsOf(r.t, r.near), "far": settingsOf(r.t, r.far)}
	switch {
	case !r.c.op.spare:
	case r.link != "":
		all["near"][mtuKnob] = r.mtuOf(r.link)
	default:
		all["near"][mtuKnob] = r.before["near"][mtuKnob]
	}
	return all
}

// pool lends pairs of hosts, which is faster than creating them anew.
type pool struct {
	t    *testing.T
	free chan *netns
}

func newPool(t *testing.T, most int) *pool { return &pool{t: t, free: make(chan *netns, most)} }

// lend returns a pair with the test's own directory. It is returned when the test ends well and
// leaves nothing behind.
func (p *pool) lend(t *testing.T) *netns {
	t.Helper()
	var n *netns
	select {
	case n = <-p.free:
	default:
		n = newNetns(p.t)
	}
	clean := [2]settings{settingsOf(t, n.near), settingsOf(t, n.far)}
	t.Cleanup(func() {
		now := [2]settings{settingsOf(t, n.near), settingsOf(t, n.far)}
		if t.Failed() || !reflect.DeepEqual(now, clean) {
			return // a host that crashed: removed at the end
		}
		select {
		case p.free <- n:
		default:
		}
	})
	return &netns{dir: t.TempDir(), near: n.near, far: n.far}
}

// left returns the processes in the hosts, and those with the directory's temporary folder in
// their environment.
func (n *netns) left() []int {
	return slices.Concat(withVariable("TMPDIR="+n.temp()), netnsPIDs(n.near, n.far))
}

// temp returns the temporary folder of all processes of a case.
func (n *netns) temp() string { return filepath.Join(n.dir, "tmp") }

// victims returns the processes of a case by role: "agent-near", "watchdog-far" and so on. The
// near agent of linerate set is in the controller.
func (n *netns) victims() map[string][]int {
	found := map[string][]int{}
	for _, host := range []string{"near", "far"} {
		for _, pid := range withVariable("LINERATE_STATE=" + n.state(host)) {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			words := strings.Split(string(b), "\x00")
			if len(words) < 2 {
				continue
			}
			if role, ok := map[string]string{"agent": "agent-", "watchdog": "watchdog-"}[words[1]]; ok {
				found[role+host] = append(found[role+host], pid)
			}
		}
	}
	return found
}

// mounts is a mount namespace, held by a process.
type mounts struct{ pid int }

// newMounts makes a mount namespace with a script. It ends with the test.
func newMounts(t *testing.T, script string) *mounts {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "unshare", "-m", "sh", "-ec", script+"\necho ready\nexec cat")
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	k, err := out.Read(make([]byte, 16))
	must.Need(t, k != 0, "mount: %v", err)
	return &mounts{cmd.Process.Pid}
}

// enter returns the command prefix that enters it; nil is the test's own namespace.
func (m *mounts) enter() []string {
	if m == nil {
		return nil
	}
	return []string{"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", m.pid)}
}

// path returns a path in it, as the test sees it.
func (m *mounts) path(path string) string {
	if m == nil {
		return path
	}
	return fmt.Sprintf("/proc/%d/root%s", m.pid, path)
}

// fill fills the file system of a directory, and free frees it.
func (m *mounts) fill(t *testing.T, dir string) {
	t.Helper()
	err := os.WriteFile(filepath.Join(m.path(dir), "fill"), make([]byte, 1<<20), 0o600)
	must.Need(t, errors.Is(err, syscall.ENOSPC), "fill %s: %v", dir, err)
}

func (m *mounts) free(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, os.Remove(filepath.Join(m.path(dir), "fill")))
}

// remount makes the file system of a directory read-only or writable, as soon as no process
// writes to it.
func (m *mounts) remount(t *testing.T, dir, how string) {
	t.Helper()
	args := append(m.enter()[1:], "mount", "-o", "remount,"+how, dir)
	must.Within(t, 20*time.Second, "remount "+how, func() bool { return exec.CommandContext(t.Context(), "nsenter", args...).Run() == nil })
}

// inetd listens in the far host and starts argv for every connection, until the test ends. It
// returns the port.
func (n *netns) inetd(t *testing.T, argv []string, environment []string) int {
	t.Helper()
	var l net.Listener
	must.Do(t, inNetns(n.far, func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp4", farAddr+":0")
		return err
	}))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		cancel()
		all.Wait()
	})
	all.Go(func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			f, err := c.(*net.TCPConn).File()
			_ = c.Close()
			if err != nil {
				return
			}
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Stdin, cmd.Stdout, cmd.Env = f, f, environment
			if cmd.Start() == nil {
				all.Go(func() { _ = cmd.Wait() })
			}
			_ = f.Close()
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}

// shiftJournal moves every time in the journal of a host, as if the clock was set between a crash
// and the recovery.
func (n *netns) shiftJournal(t *testing.T, host string, by time.Duration) {
	t.Helper()
	records, _, err := journal.Read(n.state(host))
	if err != nil || len(records) == 0 {
		return
	}
	for _, path := range journal.Files(n.state(host)) {
		must.Do(t, os.Remove(path))
	}
	var j *journal.Journal
	// A thread of a killed process may be the last to release the lock.
	must.Within(t, 20*time.Second, "the journal is free", func() bool {
		j, err = journal.Open(n.state(host))
		return err == nil
	})
	for _, r := range records {
		r.Time = r.Time.Add(by)
		if r.Intent != nil {
			r.Intent.Deadline = r.Intent.Deadline.Add(by)
		}
		must.Do(t, j.Append(r))
	}
	must.Do(t, j.Close())
}
