package ssh_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/control/wire/ssh/sshtest"
	"linerate/internal/fault"
	"linerate/internal/must"
)

func dial(t *testing.T, s *sshtest.Server, user string) (*ssh.Shell, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	shell, err := ssh.Dial(ctx, ssh.Target{User: user, Host: "far"}, ssh.Options{Command: s.Command(), Hello: time.Minute})
	if err == nil {
		t.Cleanup(func() { _ = shell.Close() })
	}
	return shell, err
}

// TestEveryLoginShell: the one command line leads to a shell, despite the output of login
// scripts, and input arrives unchanged.
func TestEveryLoginShell(t *testing.T) {
	agenttest.NoLeaks(t)
	noise := "echo welcome; echo \"it's 5 o'clock\"; printf 'no newline'\n"
	users := map[string]sshtest.User{
		"dash": {Shell: "/bin/dash", Files: map[string]string{".profile": noise}},
		"bash": {Shell: "/bin/bash", Files: map[string]string{".bashrc": noise}},
		"csh":  {Shell: "/bin/csh", Files: map[string]string{".cshrc": "echo welcome; echo 'a mark!'\n"}},
		"tcsh": {Shell: "/bin/tcsh", Files: map[string]string{".tcshrc": "echo welcome\nset echo\n"}},
		"fish": {Shell: "/usr/bin/fish", Files: map[string]string{".config/fish/config.fish": "echo welcome\n"}},
		"zsh":  {Shell: "/bin/zsh", Files: map[string]string{".zshenv": noise + "setopt histexpand\n"}},
	}
	s := sshtest.Start(t, sshtest.Options{Users: users, Sshd: "Banner " + bannerFile(t)})
	for name, u := range users {
		t.Run(name, func(t *testing.T) {
			must.SkipIf(t, must.Err(exec.LookPath(u.Shell)) != nil, "%s is not installed", u.Shell)
			talk(t, must.Get(dial(t, s, name))(t))
		})
	}
}

// talk uses a shell in all ways.
func talk(t *testing.T, shell *ssh.Shell) {
	t.Helper()
	must.Need(t, shell.Kind == ssh.Sh, "kind %v", shell.Kind)
	r, err := shell.Run(t.Context(), `printf 'a'"'"'b\n$!'; echo no >&2; (exit 3)`, nil)
	must.True(t, err == nil && r.Status == 3 && r.Output == "a'b\n$!no\n", "%+v, %v", r, err)
	data := []byte(strings.Repeat("exit\n\x00\xff", 50_000))
	r, err = shell.Run(t.Context(), "head -c 350000 | cksum", data)
	must.True(t, err == nil && r.Status == 0 && strings.HasSuffix(strings.TrimSpace(r.Output), " 350000"), "%+v, %v", r, err)
	a, b := shell.Mark()
	p := must.Get(shell.Start(t.Context(), `printf '%s%s 0\n' `+a+" "+b+"; exec cat", nil))(t)
	defer p.Close()
	must.Get(p.Control.Write(data[:7000]))(t)
	got := make([]byte, 7000)
	for n := 0; n < len(got); {
		m, err := p.Control.Read(got[n:])
		must.Dof(t, err, "after %d bytes", n)
		n += m
	}
	must.True(t, string(got) == string(data[:7000]) && p.Name == "far" && p.DataHost == "127.0.0.1" && len(p.Warnings) == 0,
		"name %q, data host %q, warnings %q", p.Name, p.DataHost, p.Warnings)
}

// TestFailedInputIsNoCommand: nothing of an interrupted copy is run as a command.
func TestFailedInputIsNoCommand(t *testing.T) {
	agenttest.NoLeaks(t)
	s := sshtest.Start(t, sshtest.Options{})
	shell := must.Get(dial(t, s, "root"))(t)
	trap := s.Dir + "/ran"
	r, err := shell.Run(t.Context(), "head -c 10 >/dev/null; false", []byte(strings.Repeat("touch "+trap+"\n", 10_000)))
	must.True(t, err == nil && r.Status == 1, "%+v, %v", r, err)
	_ = shell.Close()
	must.Fail(t, exec.CommandContext(t.Context(), "test", "-e", trap).Run(), "input was run as a command")
}

// TestRefusals: the error has the reason in words and a hint.
func TestRefusals(t *testing.T) {
	agenttest.NoLeaks(t)
	check := func(t *testing.T, s *sshtest.Server, user string, want ...string) {
		t.Helper()
		_, err := dial(t, s, user)
		failure, ok := errors.AsType[*fault.Error](err)
		must.Need(t, ok, "error %v", err)
		for _, w := range want {
			must.True(t, strings.Contains(err.Error()+"\n"+failure.Hint, w), "no %q in %q, hint %q", w, err, failure.Hint)
		}
		must.True(t, !strings.Contains(err.Error(), "@@") && !strings.Contains(err.Error(), "\n"), "raw words: %q", err)
	}
	t.Run("changed host key", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		s.Forget(t)
		check(t, s, "root", "not the one that is known", "ssh-keygen -R far")
	})
	t.Run("unknown host key", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{Client: "UserKnownHostsFile /dev/null\n"})
		s.Known = "/dev/null"
		overwrite(t, s.Config, "UserKnownHostsFile "+s.Dir+"/known_hosts\n", "")
		check(t, s, "root", "does not know its host key", "ssh root@far true")
	})
	t.Run("no key", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{Sshd: "PasswordAuthentication yes\n"})
		overwrite(t, s.Dir+"/authorized_keys", "ssh-ed25519", "#")
		check(t, s, "root", "does not let this user in", "Permission denied", "ssh-copy-id root@far")
	})
	t.Run("nobody listens", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{Client: "HostName 127.0.0.1\nPort 1\n"})
		overwrite(t, s.Config, "HostKeyAlias", "Port 1\nHostKeyAlias")
		check(t, s, "root", "no ssh server answers", "ssh://far:PORT")
	})
	t.Run("no such host", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{})
		overwrite(t, s.Config, "HostName 127.0.0.1", "HostName no-such-host.invalid")
		check(t, s, "root", "name is not known")
	})
	t.Run("no shell", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{Users: map[string]sshtest.User{"x": {Shell: "/usr/sbin/nologin"}}})
		check(t, s, "x", "no shell answered", "account is currently not available")
	})
	t.Run("another command", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{Sshd: "ForceCommand echo \"$SSH_ORIGINAL_COMMAND\"; echo backup only\n"})
		check(t, s, "root", "no shell answered", "backup only")
	})
	t.Run("endless talk", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{Sshd: "ForceCommand yes endless\n"})
		check(t, s, "root", "no shell answered", "endless")
	})
	t.Run("broken configuration", func(t *testing.T) {
		s := sshtest.Start(t, sshtest.Options{Client: "NoSuchOption yes\n"})
		check(t, s, "root", "does not understand its configuration", "nosuchoption")
	})
}

// TestNoClient: the machine has no ssh.
func TestNoClient(t *testing.T) {
	_, err := ssh.Dial(t.Context(), ssh.Target{Host: "far"}, ssh.Options{Command: []string{"linerate-no-such-ssh"}})
	failure, ok := errors.AsType[*fault.Error](err)
	must.True(t, ok && strings.Contains(failure.Hint, "LINERATE_SSH") && errors.Is(err, exec.ErrNotFound), "error %v", err)
}

// TestCancelled: the user can end the wait.
func TestCancelled(t *testing.T) {
	agenttest.NoLeaks(t)
	s := sshtest.Start(t, sshtest.Options{Sshd: "ForceCommand echo wait; exec sleep 60\n"})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	must.Is(t, must.Err(ssh.Dial(ctx, ssh.Target{User: "root", Host: "far"}, ssh.Options{Command: s.Command()})), context.Canceled, "error")
}

// TestSilence: a host that never answers leads to a timeout.
func TestSilence(t *testing.T) {
	agenttest.NoLeaks(t)
	s := sshtest.Start(t, sshtest.Options{Sshd: "ForceCommand echo who are you; exec sleep 60\n"})
	_, err := ssh.Dial(t.Context(), ssh.Target{User: "root", Host: "far"}, ssh.Options{Command: s.Command(), Hello: 8 * time.Second})
	must.True(t, err != nil && strings.Contains(err.Error(), "no shell answered") && strings.Contains(err.Error(), "who are you"), "error %v", err)
}

// TestConfiguration: ssh's own configuration is used where it helps and overridden where it would
// harm.
func TestConfiguration(t *testing.T) {
	agenttest.NoLeaks(t)
	s := sshtest.Start(t, sshtest.Options{Client: "RemoteCommand echo another\nLocalForward 1 localhost:1\nExitOnForwardFailure yes\nRequestTTY force\n"})
	talk(t, must.Get(dial(t, s, "root"))(t))
	shared := sshtest.Start(t, sshtest.Options{Client: "ControlMaster auto\nControlPersist 5\nControlPath " + s.Dir + "/mux\n"})
	t.Cleanup(func() {
		_ = exec.CommandContext(context.WithoutCancel(t.Context()), "ssh", "-F", shared.Config, "-O", "exit", "far").Run()
	})
	start := time.Now()
	for range 2 {
		shell := must.Get(dial(t, shared, "root"))(t)
		talk(t, shell)
		_ = shell.Close()
	}
	must.Equal(t, len(shared.PIDs()), 1, "connections for two sessions that share one")
	t.Logf("two sessions in %v", time.Since(start))
}

func bannerFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "banner")
	must.Do(t, os.WriteFile(file, []byte("*** Authorized use only ***\n"), 0o644))
	return file
}

// overwrite replaces text in a file, which must contain it.
func overwrite(t *testing.T, file, old, with string) {
	t.Helper()
	b := must.Get(os.ReadFile(file))(t)
	must.Need(t, strings.Contains(string(b), old), "no %q in %s", old, file)
	must.Do(t, os.WriteFile(file, []byte(strings.Replace(string(b), old, with, 1)), 0o600))
}
