package deploy_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/control/deploy"
	"linerate/internal/control/wire/ssh/sshtest"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// sudoers makes the user someone with the password "open sesame", by files that
// lie over the machine's own.
func sudoers(t *testing.T, line string) sshtest.Options {
	t.Helper()
	if _, err := exec.LookPath("sudo"); err != nil {
		t.Skip("needs sudo (Debian package sudo)")
	}
	out, err := exec.CommandContext(t.Context(), "openssl", "passwd", "-6", "open sesame").Output()
	if err != nil {
		t.Skipf("needs openssl to hash a password: %v", err)
	}
	shadow := "root:*:20000:0:99999:7:::\nsomeone:" + strings.TrimSpace(string(out)) + ":20000:0:99999:7:::\n"
	return sshtest.Options{
		Users: map[string]sshtest.User{"someone": {UID: 4242}},
		Mount: map[string]string{"/etc/sudoers": line + "\nroot ALL=(ALL) ALL\n", "/etc/shadow": shadow},
	}
}

// TestSudo runs the agent as root by the real sudo.
func TestSudo(t *testing.T) {
	t.Parallel()
	rootHome := func(t *testing.T, h *host) {
		t.Helper()
		c := h.session(t, deploy.Options{Sudo: true, Password: typed(t, h, "wrong", "open sesame")})
		pid := find(t, h.PIDs()[0], "/linerate agent --remove")
		s := must.Get(os.Stat("/proc/" + itoa(pid)))(t)
		must.True(t, s.Sys().(*syscall.Stat_t).Uid == 0, "the agent's user: %v", s)
		closeSession(t, c)
		must.Len(t, h.tmp(t), 0, "left")
	}
	defaults := "Defaults env_keep+=HOME,!always_set_home,!set_home,lecture=never\n" // the agent of the test writes there
	t.Run("without a password", func(t *testing.T) {
		t.Parallel()
		rootHome(t, newHost(t, sudoers(t, defaults+"someone ALL=(ALL) NOPASSWD: ALL")))
	})
	t.Run("with a password", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, sudoers(t, defaults+"someone ALL=(ALL) ALL"))
		rootHome(t, h)
	})
	t.Run("wrong passwords", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, sudoers(t, "Defaults lecture=never\nDefaults passwd_tries=3\nsomeone ALL=(ALL) ALL"))
		_, err := h.agent(t, deploy.Options{Sudo: true, Password: typed(t, h, "a", "b", "c")})
		_, ok := errors.AsType[*fault.Error](err)
		must.True(t, ok, "error %v", err)
	})
	t.Run("nobody to ask", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, sudoers(t, "someone ALL=(ALL) ALL"))
		_, err := h.agent(t, deploy.Options{Sudo: true})
		p, ok := errors.AsType[*fault.Error](err)
		must.True(t, ok && strings.Contains(p.Hint, "NOPASSWD"), "error %v", err)
	})
	t.Run("not allowed", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, sudoers(t, "Defaults lecture=never"))
		_, err := h.agent(t, deploy.Options{Sudo: true, Password: typed(t, h, "open sesame", "open sesame", "open sesame")})
		must.Say(t, err, "sudo", "error")
	})
	t.Run("root already", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, sshtest.Options{})
		closeSession(t, h.session(t, deploy.Options{Sudo: true}))
	})
}

// typed are passwords, one for each time that somebody asks, which must never be
// seen on a command line.
func typed(t *testing.T, h *host, passwords ...string) func(string) ([]byte, error) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for ctx.Err() == nil && len(h.PIDs()) == 0 {
			waitTick(ctx, time.Millisecond)
		}
		for ctx.Err() == nil {
			for _, pid := range sshtest.Children(h.PIDs()[0]) {
				if line, _ := os.ReadFile("/proc/" + itoa(pid) + "/cmdline"); strings.Contains(string(line), "sesame") {
					t.Errorf("on a command line: %q", line)
					return
				}
			}
			waitTick(ctx, 20*time.Millisecond) // a look reads all of /proc
		}
	}()
	t.Cleanup(func() { cancel(); <-seen })
	return func(string) ([]byte, error) {
		if len(passwords) == 0 {
			t.Error("asked once too often")
			return nil, errors.New("no more")
		}
		p := passwords[0]
		passwords = passwords[1:]
		return []byte(p), nil
	}
}
