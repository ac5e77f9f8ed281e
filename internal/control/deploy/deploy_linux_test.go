package deploy_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/control/deploy"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/control/wire/ssh/sshtest"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// host is a far host whose temporary folder belongs to the test.
type host struct {
	*sshtest.Server
	user        string
	copied      int // how often the program was copied
	done, bytes int // of the last copy
}

func newHost(t *testing.T, o sshtest.Options) *host {
	t.Helper()
	h := &host{user: "root"}
	for name := range o.Users {
		h.user = name
	}
	tmp := filepath.Join(t.TempDir(), "tmp")
	must.Do(t, os.Mkdir(tmp, 0o700))
	for _, dir := range []string{tmp, filepath.Dir(tmp), filepath.Dir(filepath.Dir(tmp))} {
		must.Do(t, os.Chmod(dir, 0o777))
	}
	if o.Env == nil {
		o.Env = map[string]string{}
	}
	if o.Env["TMPDIR"] == "" {
		o.Env["TMPDIR"] = tmp
	}
	h.Server = sshtest.Start(t, o)
	return h
}

// tmp lists the far host's temporary folder.
func (h *host) tmp(t *testing.T) []string {
	t.Helper()
	_, rest, _ := strings.Cut(string(must.Get(os.ReadFile(h.Dir+"/sshd_config"))(t)), "TMPDIR=")
	dir, _, _ := strings.Cut(rest, "\n")
	return must.Get(filepath.Glob(dir + "/*"))(t)
}

func (h *host) agent(t *testing.T, o deploy.Options) (wire.Peer, error) {
	t.Helper()
	shell := must.Get(ssh.Dial(t.Context(), ssh.Target{User: h.user, Host: "far"}, ssh.Options{Command: h.Command(), Hello: time.Minute}))(t)
	o.Copying = func(done, bytes int) {
		if done == 0 {
			h.copied++
		}
		h.done, h.bytes = done, bytes
	}
	return deploy.Agent(t.Context(), shell, o)
}

// session opens a session with a deployed agent.
func (h *host) session(t *testing.T, o deploy.Options) *session.Client {
	t.Helper()
	return wiretest.Open(t, must.Get(h.agent(t, o))(t), model.Far)
}

func closeSession(t *testing.T, c *session.Client) {
	t.Helper()
	must.OK(t, must.Err(c.Close(t.Context())))
}

func (h *host) calls(t *testing.T) string {
	t.Helper()
	var b []byte
	must.Until(t, "the agent's last words", func() bool {
		var err error
		b, err = os.ReadFile(h.Home(h.user) + "/calls")
		return err == nil && len(b) > 0
	})
	return string(b)
}

// TestConformance keeps the first copy for the sessions that follow: it tests what comes after
// the copying.
func TestConformance(t *testing.T) {
	h := newHost(t, sshtest.Options{})
	wiretest.Run(t, wiretest.Transport{Tunes: true, Dial: func(t *testing.T) wire.Peer {
		return must.Get(h.agent(t, deploy.Options{Keep: deploy.KeepYes}))(t)
	}})
	must.Until(t, "an empty temporary folder", func() bool { return len(h.tmp(t)) == 0 })
	must.True(t, h.copied == 1, "copied %d times", h.copied)
}

// TestLeavesNothing: the far host is left unchanged, for every login shell.
func TestLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"/bin/sh", "/bin/csh", "/usr/bin/fish"} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed", shell)
			continue
		}
		h := newHost(t, sshtest.Options{Users: map[string]sshtest.User{"someone": {UID: 4242, Shell: shell}}})
		c := h.session(t, deploy.Options{})
		dirs := h.tmp(t)
		must.Need(t, len(dirs) == 1, "during the session: %q", dirs)
		s := must.Get(os.Stat(dirs[0]))(t)
		must.True(t, s.Mode().Perm() == 0o700 && s.Sys().(*syscall.Stat_t).Uid == 4242, "the directory: %v", s)
		closeSession(t, c)
		left := h.tmp(t)
		must.True(t, len(left) == 0 && h.copied == 1, "%s: left behind: %q; copied %d times", shell, left, h.copied)
		got := h.calls(t)
		must.True(t, strings.HasPrefix(got, "uid 4242: "), "%s: %s", shell, got)
		home, err := os.ReadDir(h.Home("someone"))
		if err != nil || slices.ContainsFunc(home, func(e os.DirEntry) bool {
			return e.Name() != "calls" && e.Name() != ".config" && e.Name() != ".local" && e.Name() != ".cache" // fish's own
		}) {
			t.Errorf("%s: home holds %v, %v", shell, home, err)
		}
	}
}

// TestFaults: whichever process is killed, the far host is restored and the directory removed.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, victim := range map[string]func(t *testing.T, h *host) int{
		"ssh":   func(t *testing.T, h *host) int { return find(t, os.Getpid(), "ssh -F "+h.Config) },
		"sshd":  func(t *testing.T, h *host) int { return find(t, h.PIDs()[0], "sshd: root@notty") },
		"shell": func(t *testing.T, h *host) int { return find(t, h.PIDs()[0], "sh -c echo") },
		"agent": func(t *testing.T, h *host) int { return find(t, h.PIDs()[0], "linerate agent --remove") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, sshtest.Options{})
			c := h.session(t, deploy.Options{})
			must.Get(c.Apply(t.Context(), []model.Assignment{{Host: model.Far, Knob: "tcp.sack", Value: "0"}}, time.Minute))(t)
			must.Need(t, len(h.tmp(t)) == 1, "during the session: %q", h.tmp(t))
			must.Do(t, syscall.Kill(victim(t, h), syscall.SIGKILL))
			if name == "shell" { // the agent lives, and does not know yet
				_, _ = c.Close(t.Context())
			}
			must.Until(t, "the directory is gone", func() bool { return len(h.tmp(t)) == 0 })
			if name == "agent" {
				return // its knobs died with it; those of a watchdog do not
			}
			must.Contain(t, h.calls(t), "apply undo", "calls")
		})
	}
}

// find returns the only process below pid whose command line contains words.
func find(t *testing.T, pid int, words string) int {
	t.Helper()
	var found []int
	for _, p := range sshtest.Children(pid) {
		line, _ := os.ReadFile("/proc/" + itoa(p) + "/cmdline")
		if text := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(text, words) && !strings.Contains(text, "sshd -i") {
			found = append(found, p)
		}
	}
	must.Need(t, len(found) != 0, "no process %q", words)
	return found[len(found)-1]
}

// TestCopiedOnce: a second session of a command takes the program from the first one's copy, and
// outlives it; one that meets another program there, or none, copies again.
func TestCopiedOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t, sshtest.Options{})
	o := deploy.Options{Last: new(deploy.Last)}
	first := h.session(t, o)
	second := h.session(t, o)
	must.Need(t, h.copied == 1 && len(h.tmp(t)) == 2, "copied %d times, folders %q", h.copied, h.tmp(t))
	closeSession(t, first)
	must.Get(second.Apply(t.Context(), []model.Assignment{{Host: model.Far, Knob: "tcp.sack", Value: "0"}}, time.Minute))(t)
	must.Need(t, len(h.tmp(t)) == 1, "while the second session lasts: %q", h.tmp(t))
	closeSession(t, second)
	third := h.session(t, o)
	must.True(t, h.copied == 2, "copied %d times after all copies had gone", h.copied)
	file := h.tmp(t)[0] + "/linerate"
	must.Do(t, os.Rename(file, file+".real"))
	must.Do(t, os.WriteFile(file, []byte("#!/bin/sh\ntouch \"$HOME/foreign\"\n"), 0o700))
	fourth := h.session(t, o)
	must.Do(t, os.Rename(file+".real", file))
	_, err := os.Stat(h.Home(h.user) + "/foreign")
	must.True(t, h.copied == 3 && os.IsNotExist(err), "copied %d times beside another program; it ran: %v", h.copied, err == nil)
	closeSession(t, third)
	closeSession(t, fourth)
	must.True(t, len(h.tmp(t)) == 0, "left: %q", h.tmp(t))
}

// TestKeep: a kept copy is used again, but only while it is unchanged.
func TestKeep(t *testing.T) {
	t.Parallel()
	h := newHost(t, sshtest.Options{Users: map[string]sshtest.User{"someone": {UID: 4242}}})
	once := func(want int) string {
		t.Helper()
		start := time.Now()
		c := h.session(t, deploy.Options{Keep: deploy.KeepYes})
		t.Logf("ready after %v", time.Since(start).Round(time.Millisecond))
		closeSession(t, c)
		kept, err := filepath.Glob(h.Home("someone") + "/.cache/linerate/*")
		must.Need(t, h.copied == want && err == nil && len(kept) == 1 && len(h.tmp(t)) <= 0, "copied %d times, want %d; kept %q, %v; left %q", h.copied, want, kept, err, h.tmp(t))
		return kept[0]
	}
	once(1)
	f := must.Get(os.OpenFile(once(1), os.O_WRONLY, 0))(t)
	_, _ = f.WriteAt([]byte("X"), 100_000)
	_ = f.Close()
	once(2)
	must.True(t, h.done == h.bytes && h.bytes != 0, "progress ended at %d of %d bytes", h.done, h.bytes)
}

// TestKeepIsAsked: MayKeep decides whether the copy stays. A copy of an earlier version is then
// removed, and all kept copies are if none shall stay.
func TestKeepIsAsked(t *testing.T) {
	t.Parallel()
	h := newHost(t, sshtest.Options{Users: map[string]sshtest.User{"someone": {UID: 4242}}})
	dir := h.Home("someone") + "/.cache/linerate"
	asked, answer := 0, false
	once := func(keep deploy.Keep, copied int, left ...string) {
		t.Helper()
		closeSession(t, h.session(t, deploy.Options{Keep: keep, MayKeep: func(context.Context, int) (bool, error) {
			asked++
			return answer, nil
		}}))
		found, err := filepath.Glob(dir + "/*")
		must.Need(t, err == nil && len(found) == len(left) && h.copied == copied, "copied %d times, want %d; left %q, want %q", h.copied, copied, found, left)
		for i, name := range left {
			ok, _ := filepath.Match(dir+"/"+name, found[i])
			must.True(t, ok, "left %q, want %q", found, left)
		}
	}
	once(deploy.KeepAsked, 1)
	must.Do(t, os.MkdirAll(dir, 0o755))
	for _, name := range []string{"agent-0000", "other"} { // of an earlier version, and another program's
		must.Do(t, os.WriteFile(dir+"/"+name, nil, 0o644))
	}
	for _, d := range []string{filepath.Dir(dir), dir} {
		must.Do(t, os.Chown(d, 4242, 4242))
	}
	once(deploy.KeepNo, 2, "agent-0000", "other")
	answer = true
	once(deploy.KeepAsked, 3, "agent-*", "other")
	once(deploy.KeepYes, 3, "agent-*", "other")
	once(deploy.KeepNone, 4, "other")
	must.True(t, asked == 2, "asked %d times", asked)
}

// TestInstalled: the same program in the far PATH is not copied, and kept copies are still
// removed if none may stay.
func TestInstalled(t *testing.T) {
	t.Parallel()
	bin, cache := openDir(t), openDir(t)
	must.Do(t, os.Symlink(os.Args[0], bin+"/linerate"))
	must.Do(t, os.MkdirAll(cache+"/linerate", 0o700))
	must.Do(t, os.WriteFile(cache+"/linerate/agent-0000", nil, 0o600))
	h := newHost(t, sshtest.Options{Env: map[string]string{"PATH": bin + ":/usr/bin:/bin", "XDG_CACHE_HOME": cache}})
	closeSession(t, h.session(t, deploy.Options{Keep: deploy.KeepNone}))
	must.True(t, h.copied == 0 && len(h.tmp(t)) <= 0, "copied %d times, left %q", h.copied, h.tmp(t))
	must.Fail(t, must.Err(os.Stat(cache+"/linerate/agent-0000")), "what had stayed stays")
}

// TestOldHosts: the copy works, and is verified, with whatever programs a host has.
func TestOldHosts(t *testing.T) {
	t.Parallel()
	basic := []string{"sh", "uname", "id", "head", "cat", "mkdir", "chmod", "rm", "cksum", "gzip"}
	for name, tools := range map[string][]string{
		"sha256sum": append([]string{"sha256sum"}, basic...),
		"shasum":    append([]string{"shasum", "perl"}, basic...),
		"openssl":   append([]string{"openssl"}, basic...),
		"nothing":   basic,
		"no gzip":   append([]string{"sha256sum"}, basic[:len(basic)-1]...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := openDir(t)
			for _, tool := range tools {
				path, err := exec.LookPath(tool)
				must.SkipIf(t, err != nil, "%s is not installed", tool)
				must.Do(t, os.Symlink(path, bin+"/"+tool))
			}
			h := newHost(t, sshtest.Options{Env: map[string]string{"PATH": bin}})
			closeSession(t, h.session(t, deploy.Options{}))
			must.Len(t, h.tmp(t), 0, "left")
			// A copy that loses a byte on the way is not started.
			script(t, bin+"/chmod", `/bin/chmod "$@"; case "$2" in */linerate) /usr/bin/truncate -s -1 "$2";; esac`)
			must.Say(t, must.Err(h.agent(t, deploy.Options{})), "what arrived is not what was sent", "broken copy")
			must.Until(t, "the directory is gone", func() bool { return len(h.tmp(t)) == 0 })
		})
	}
}

// openDir returns a directory that all users may read.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.Chmod(filepath.Dir(dir), 0o755))
	return dir
}

func script(t *testing.T, file, text string) {
	t.Helper()
	_ = os.Remove(file) // never through a link
	must.Do(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
}

// TestDirectories: folders where programs may not start are skipped, also for kept programs. If
// the folder is full, or there is no other, the error says so.
func TestDirectories(t *testing.T) {
	t.Parallel()
	tmp := openDir(t)
	h := newHost(t, sshtest.Options{Env: map[string]string{"TMPDIR": tmp}, Setup: "mount -t tmpfs -o noexec none " + tmp})
	c := h.session(t, deploy.Options{})
	pid := find(t, h.PIDs()[0], "linerate agent --remove")
	must.True(t, !strings.Contains(program(t, pid), tmp), "%s runs where nothing may", program(t, pid))
	closeSession(t, c)
	noexec := func(dir string) string {
		return "mount --bind " + dir + " " + dir + " && mount -o remount,bind,noexec " + dir + "\n"
	}
	none := newHost(t, sshtest.Options{Setup: noexec("/tmp") + noexec("/var/tmp") + noexec("/root")})
	_, err := none.agent(t, deploy.Options{})
	p, ok := errors.AsType[*fault.Error](err)
	must.True(t, ok && strings.Contains(err.Error(), "starts no programs from ") && strings.Contains(p.Hint, "in PATH needs no copy"), "no place for programs: %v", err)
	cache := newHost(t, sshtest.Options{Env: map[string]string{"XDG_CACHE_HOME": tmp}, Setup: "mount -t tmpfs -o noexec none " + tmp})
	closeSession(t, cache.session(t, deploy.Options{Keep: deploy.KeepYes}))
	full := openDir(t)
	f := newHost(t, sshtest.Options{Env: map[string]string{"TMPDIR": full}, Setup: "mount -t tmpfs -o size=1m none " + full})
	_, err = f.agent(t, deploy.Options{})
	must.True(t, err != nil && strings.Contains(strings.ToLower(err.Error()), "no space left"), "full: %v", err)
}

// program returns the file that a process runs.
func program(t *testing.T, pid int) string {
	t.Helper()
	return must.Get(os.Readlink("/proc/" + itoa(pid) + "/exe"))(t)
}

// TestOtherSystems: the error says what is missing.
func TestOtherSystems(t *testing.T) {
	t.Parallel()
	bin := openDir(t)
	as := func(system, machine string) {
		script(t, bin+"/uname", `[ "$1" = -s ] && echo `+system+` || echo `+machine)
	}
	h := newHost(t, sshtest.Options{Env: map[string]string{"PATH": bin + ":/usr/bin:/bin"}})
	here := t.TempDir()
	o := deploy.Options{Self: here + "/linerate", Cache: here + "/cache", Version: "v9"}
	for _, c := range []struct{ system, machine, says, hint string }{
		{"FreeBSD", "arm64", "freebsd/arm64, and there is no linerate for that here", here + "/cache/dist/v9/linerate-agent-freebsd-arm64"},
		{"MINGW64_NT-10.0-22631", "x86_64", "windows/amd64", "linerate-agent-windows-amd64.exe"},
		{"Linux", "armv7l", "linux/arm", here + "/linerate-agent-linux-arm"},
		{"Linux", "i686", "linux/386", "linerate is built for"},
		{"SunOS", "sun4v", "sunos/sun4v", "linerate is built for"},
		{`"x/../y"`, "z", "unknown kind", "linerate serve"},
	} {
		as(c.system, c.machine)
		_, err := h.agent(t, o)
		p, ok := errors.AsType[*fault.Error](err)
		must.True(t, ok && strings.Contains(err.Error(), c.says) && strings.Contains(p.Hint, c.hint), "%s %s: %v, hint %q", c.system, c.machine, err, p.Hint)
	}
	// A file with the right name but for another system is not sent.
	as("FreeBSD", "arm64")
	must.Do(t, os.WriteFile(here+"/linerate-freebsd-arm64", must.Get(os.ReadFile(os.Args[0]))(t), 0o755))
	must.Say(t, must.Err(h.agent(t, o)), "linerate-freebsd-arm64 is for linux/", "wrong file")
	must.True(t, h.copied == 0 && len(h.tmp(t)) <= 0, "copied %d times, left %q", h.copied, h.tmp(t))
	// The program installed there is used.
	must.Do(t, os.Symlink(os.Args[0], bin+"/linerate"))
	as("FreeBSD", "riscv64")
	_, err := h.agent(t, o)
	p, ok := errors.AsType[*fault.Error](err)
	must.True(t, ok && strings.Contains(err.Error(), "would run as root unchecked") && strings.Contains(p.Hint, "--trust-far-binary"), "a program that nobody knows, as root: %v", err)
	o.TrustFar = true
	closeSession(t, h.session(t, o))
}
