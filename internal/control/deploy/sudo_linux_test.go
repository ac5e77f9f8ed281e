package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"linerate/internal/control/agent"
	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/deploy"
	"linerate/internal/control/wire"
	"linerate/internal/control/wire/ssh/sshtest"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// sudoers creates the user someone with the password "open sesame", in files mounted over the
// machine's own.
func sudoers(t *testing.T, line string) sshtest.Options {
	t.Helper()
	if _, err := exec.LookPath("sudo"); err != nil {
		t.Skip("needs sudo (Debian package sudo)")
	}
	out, err := exec.CommandContext(t.Context(), "openssl", "passwd", "-6", "open sesame").Output()
	must.SkipIf(t, err != nil, "needs openssl to hash a password: %v", err)
	shadow := "root:*:20000:0:99999:7:::\nsomeone:" + strings.TrimSpace(string(out)) + ":20000:0:99999:7:::\n"
	return sshtest.Options{
		Users: map[string]sshtest.User{"someone": {UID: 4242}},
		Mount: map[string]string{"/etc/sudoers": line + "\nroot ALL=(ALL) ALL\n", "/etc/shadow": shadow},
	}
}

// TestSudo runs the agent as root with the real sudo.
func TestSudo(t *testing.T) {
	t.Parallel()
	rootHome := func(t *testing.T, h *host) {
		t.Helper()
		c := h.session(t, deploy.Options{Sudo: true, Password: typed(t, h, "wrong", "open sesame")})
		s := must.Get(os.Stat("/proc/" + itoa(find(t, h.PIDs()[0], "/linerate agent --remove"))))(t)
		must.True(t, s.Sys().(*syscall.Stat_t).Uid == 0, "the agent's user: %v", s)
		closeSession(t, c)
		must.Len(t, h.tmp(t), 0, "left")
	}
	defaults := "Defaults env_keep+=HOME,!always_set_home,!set_home,lecture=never\n" // the test's agent writes there
	t.Run("without a password", func(t *testing.T) {
		t.Parallel()
		rootHome(t, newHost(t, sudoers(t, defaults+"someone ALL=(ALL) NOPASSWD: ALL")))
	})
	t.Run("with a password", func(t *testing.T) {
		t.Parallel()
		rootHome(t, newHost(t, sudoers(t, defaults+"someone ALL=(ALL) ALL")))
	})
	t.Run("wrong passwords", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, sudoers(t, "Defaults lecture=never\nDefaults passwd_tries=3\nsomeone ALL=(ALL) ALL"))
		_, err := h.agent(t, deploy.Options{Sudo: true, Password: typed(t, h, "a", "b", "c")})
		_, ok := errors.AsType[*fault.Error](err)
		must.True(t, ok, "error %v", err)
	})
	t.Run("without a terminal", func(t *testing.T) {
		t.Parallel()
		_, err := newHost(t, sudoers(t, "someone ALL=(ALL) ALL")).agent(t, deploy.Options{Sudo: true})
		p, ok := errors.AsType[*fault.Error](err)
		must.True(t, ok && strings.Contains(p.Hint, "NOPASSWD"), "error %v", err)
	})
	t.Run("not allowed", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, sudoers(t, "Defaults lecture=never"))
		must.Say(t, must.Err(h.agent(t, deploy.Options{Sudo: true, Password: typed(t, h, "open sesame", "open sesame", "open sesame")})), "sudo", "error")
	})
	t.Run("root already", func(t *testing.T) {
		t.Parallel()
		closeSession(t, newHost(t, sshtest.Options{}).session(t, deploy.Options{Sudo: true}))
	})
}

// typed returns a prompt that answers with one password after the other. They must never appear
// on a command line.
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
			waitTick(ctx, 20*time.Millisecond) // each check reads all of /proc
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

// TestRootRunsWhatWasChecked: another process with the rights of the user who logs in on the far
// host swaps the program for another one over and over. Root never runs that, whatever the
// moment.
func TestRootRunsWhatWasChecked(t *testing.T) {
	for name, o := range map[string]deploy.Options{"copied": {Sudo: true}, "kept": {Sudo: true, Keep: deploy.KeepYes}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, sudoers(t, "Defaults env_keep+=HOME,!always_set_home,!set_home,lecture=never\nsomeone ALL=(ALL) NOPASSWD: ALL"))
			evidence := filepath.Join(openDir(t), "ran")
			if o.Keep == deploy.KeepYes { // the file that the swapper is after exists from the beginning
				closeSession(t, h.session(t, o))
			}
			stop := swap(t, h, evidence)
			good, refused := 0, 0
			for range must.Often(2, 20) {
				p, err := h.agent(t, o)
				if err != nil {
					refused++
					continue
				}
				good++
				_ = p.Close()
			}
			swaps := stop()
			ran, err := os.ReadFile(evidence)
			t.Logf("%d swaps, %d agents, %d refused", swaps, good, refused)
			must.True(t, swaps != 0, "nothing was swapped")
			must.Need(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
			for line := range strings.Lines(string(ran)) {
				must.Need(t, strings.TrimSpace(line) != "0", "root ran the other program: %q", ran)
			}
			must.Until(t, "root's copies to be gone", func() bool {
				left, _ := filepath.Glob("/var/lib/linerate-??????????/linerate")
				return len(left) == 0
			})
		})
	}
}

// swap replaces every program that is deployed to h by one that records its user, and restores
// it, until the returned function is called, which returns how often.
func swap(t *testing.T, h *host, evidence string) func() int {
	t.Helper()
	other := filepath.Join(filepath.Dir(evidence), "other")
	script(t, other, fmt.Sprintf("id -u >>%s", evidence))
	text := must.Get(os.ReadFile(other))(t)
	ctx, cancel := context.WithCancel(t.Context())
	swaps := 0
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for ctx.Err() == nil {
			files, _ := filepath.Glob(h.Home(h.user) + "/.cache/linerate/agent-*")
			for _, dir := range h.tmp(t) {
				files = append(files, dir+"/linerate")
			}
			for _, file := range files {
				if strings.HasSuffix(file, ".good") {
					continue
				}
				if info, err := os.Stat(file); err != nil || info.Size() < 1<<20 {
					continue // it is still on its way
				}
				if os.Rename(file, file+".good") != nil {
					continue
				}
				if os.WriteFile(file, text, 0o755) == nil {
					swaps++
				}
				waitTick(ctx, time.Millisecond)
				_ = os.Rename(file+".good", file)
			}
			waitTick(ctx, time.Millisecond)
		}
	})
	stop := func() int {
		cancel()
		swapping.Wait()
		return swaps
	}
	t.Cleanup(func() { stop() })
	return stop
}

// TestMain makes this test binary the deployed program, and checks that all tests together leak
// no goroutine.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "version":
			fmt.Println("test")
			os.Exit(0)
		case "agent":
			os.Exit(beAgent(os.Args[2:]))
		}
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	if left := agenttest.Leaks(before); left != "" {
		fmt.Fprintln(os.Stderr, left)
		code = 1
	}
	os.Exit(code)
}

// beAgent does what linerate agent does, and records the calls of its knobs and its user in the
// user's home.
func beAgent(args []string) int {
	fmt.Fprintln(os.Stderr, "agent here") // not part of the protocol
	conn, done := wire.Join(os.Stdin, os.Stdout)
	knobs := agenttest.NewKnobs(model.Far, agenttest.Values())
	err := agent.Serve(context.Background(), conn, agenttest.Config(knobs))
	_ = conn.Close()
	<-done
	if len(args) == 2 && args[0] == "--remove" {
		self, _ := os.Executable()
		_ = os.Remove(self)
		_ = os.Remove(args[1])
	}
	home, _ := os.UserHomeDir()
	_ = os.WriteFile(filepath.Join(home, "calls"), fmt.Appendf(nil, "uid %d: %s", os.Getuid(), strings.Join(knobs.Calls(), " ")), 0o600)
	if err != nil {
		return 1
	}
	return 0
}

func itoa(n int) string { return strconv.Itoa(n) }

func waitTick(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
