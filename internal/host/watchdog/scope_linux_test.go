package watchdog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/host/journal"
	"linerate/internal/must"
)

func TestUnitOf(t *testing.T) {
	for text, want := range map[string]string{
		"0::/user.slice/user-0.slice/session-3.scope\n":                       "session-3.scope",
		"0::/system.slice/linerate.service\n":                                 "linerate.service",
		"4:memory:/a.scope\n1:name=systemd:/system.slice/ssh.service\n0::/\n": "ssh.service",
		"0::/user.slice/user-7.slice/user@7.service/app.slice/run-u1.scope\n": "run-u1.scope",
		"0::/user.slice/user-7.slice/user@7.service/init.slice\n":             "user@7.service",
		"0::/system.slice/linerate.service/worker\n":                          "linerate.service",
		"0::/system.slice/linerate-undo-1-2.scope\n":                          "linerate-undo-1-2.scope",
		"9:name=systemd:/\n8:pids:/x.service\n0::/\n":                         "",
		"":                     "",
		"nonsense\n::\n0:::\n": "",
	} {
		must.Equal(t, unitOf(text), want, "unitOf(%q)", text)
	}
}

// systemd makes a root in which this process is in a unit, and systemd-run is a
// script.
func systemd(t *testing.T, unit, script string) (root string) {
	t.Helper()
	root = t.TempDir()
	setFile(t, filepath.Join(root, "proc/self/cgroup"), "0::/system.slice/"+unit)
	setFile(t, filepath.Join(root, "run/systemd/system/there"), "")
	path := filepath.Join(root, "usr/bin/systemd-run")
	setFile(t, path, "#!/bin/sh\n"+script)
	must.Do(t, os.Chmod(path, 0o755))
	return root
}

// enters is a systemd-run that writes down what it is told and becomes the command.
const enters = `echo "$@" >> "$(dirname "$0")/told"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"`

// TestScope has systemd start the watchdog in a scope of its own where there is a
// unit to leave, and says so where that fails.
func TestScope(t *testing.T) {
	for name, c := range map[string]struct{ unit, script, says string }{
		"service":        {"linerate.service", enters, ""},
		"session":        {"session-3.scope", enters, ""},
		"no unit":        {"", enters, ""},
		"there already":  {"linerate-undo-5-6.scope", enters, ""},
		"no bus":         {"linerate.service", "echo 'Failed to connect to bus: no such file' >&2; exit 1", "linerate.service: to stop that ends the undo too"},
		"does not start": {"linerate.service", "exec /nonexistent", "linerate.service: to stop that ends the undo too"},
	} {
		t.Run(name, func(t *testing.T) {
			b, dir, root := fakeBench(t), t.TempDir(), systemd(t, c.unit, c.script)
			before := b.values(t)
			t.Setenv(roleVar, "watchdog")
			var said bytes.Buffer
			w, err := Start(t.Context(), Config{Dir: dir, Host: b.host, Root: root, Command: os.Args[:1], Talk: &said})
			must.Do(t, err)
			_, err = w.Apply(t.Context(), b.changes, time.Minute)
			must.OK(t, errors.Join(err, w.Close()))
			b.expect(t, before, "the end")
			if c.says == "" && said.Len() > 0 || !strings.Contains(said.String(), c.says) || name == "no bus" && !strings.Contains(said.String(), "Failed to connect to bus") {
				t.Errorf("it says %q", said.String())
			}
			told, err := os.ReadFile(filepath.Join(root, "usr/bin/told"))
			want := slices.Contains([]string{"service", "session"}, name)
			must.Need(t, (err == nil) == want, "systemd was asked: %v", err)
			must.True(t, !want || strings.HasPrefix(string(told), fmt.Sprintf("--scope --quiet --collect --unit=linerate-undo-%d-", os.Getpid())),
				"systemd was asked for %q", told)
		})
	}
}

// TestScopeOfNobody warns where nobody can ask systemd, and where there
// is no systemd says nothing.
func TestScopeOfNobody(t *testing.T) {
	root := systemd(t, "linerate.service", enters)
	must.Do(t, os.Remove(filepath.Join(root, "usr/bin/systemd-run")))
	s := findScope(root)
	must.True(t, s.unit == "linerate.service" && s.prefix == nil && s.why != "", "without systemd-run: %+v", s)
	must.Do(t, os.RemoveAll(filepath.Join(root, "run")))
	if s := findScope(root); s.unit != "" || s.prefix != nil {
		t.Errorf("without systemd: %+v", s)
	}
}

// TestScopeThatDoesNotAnswer: a systemd that hangs keeps nothing waiting for long.
func TestScopeThatDoesNotAnswer(t *testing.T) {
	b, root := fakeBench(t), systemd(t, "linerate.service", "")
	stuckProgram, err := os.ReadFile("/bin/sleep")
	if err == nil { // in a script the process would be named after its interpreter
		path := filepath.Join(root, "usr/bin/systemd-run")
		err = os.WriteFile(path, stuckProgram, 0o755)
	}
	must.Do(t, err)
	s := findScope(root)
	s.prefix = []string{s.prefix[0], "1000000"} // what follows is more time to sleep
	t.Setenv(roleVar, "watchdog")
	c, err := startProcess(t.Context(), Config{Dir: t.TempDir(), Host: b.host}, s.prefix, s.prefix[0])
	must.Is(t, err, ErrGone, "Start = %+v", c)
}

// cgroup makes a cgroup of the test's own, below the root of the unified hierarchy.
func cgroup(t *testing.T, name string) string {
	t.Helper()
	for _, at := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if !exists(filepath.Join(at, "cgroup.procs")) || !exists(filepath.Join(at, "cgroup.controllers")) {
			continue
		}
		dir := filepath.Join(at, fmt.Sprintf("linerate-test-%d-%s", os.Getpid(), name))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("no cgroup of its own: %v", err)
		}
		t.Cleanup(func() {
			_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
			again := time.NewTicker(5 * time.Millisecond)
			defer again.Stop()
			for range 2000 {
				if os.Remove(dir) == nil {
					return
				}
				<-again.C
			}
			t.Errorf("%s is still there", dir)
		})
		return dir
	}
	t.Skip("no cgroup v2 here")
	return ""
}

// TestKilledCgroup ends all that is in the cgroup of an agent, as systemctl stop
// does: the watchdog, in another, undoes.
func TestKilledCgroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	unit, scope := cgroup(t, "unit"), cgroup(t, "scope")
	b := fakeBench(t)
	before := b.values(t)
	steps := b.steps(t)
	applied := strconv.Itoa(slices.Index(steps, "applied tcp.recv_buffer_max") + 1)
	for entered, script := range map[bool]string{true: "echo $$ > " + scope + "/cgroup.procs\n" + enters, false: enters} {
		root, dir := systemd(t, "linerate.service", script), t.TempDir()
		b.root = root
		b.runIn(t, dir, crashVar+"="+applied+":cgroup", cgroupVar+"="+unit, noBootVar+"=1")
		records, _, err := journal.Read(dir)
		must.Need(t, err == nil && len(records) != 0, "%d records, %v", len(records), err)
		left := len(journal.OpenIntents(records))
		must.Equal(t, left == 0, entered, "watchdog in a scope: %v, %d changes are open", entered, left)
		must.OK(t, must.Err(Recover(t.Context(), Config{Dir: dir, Host: b.host})))
		b.expect(t, before, "Recover")
	}
}

// joinCgroup puts this process, and what it starts, into a cgroup.
func joinCgroup(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// killCgroup ends all that is in a cgroup, and waits for the end of all but this
// process.
func killCgroup(dir string) {
	orPanic(os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0))
	if unit, err := os.ReadFile("/proc/self/cgroup"); err == nil && bytes.Contains(unit, []byte(filepath.Base(dir)+"\n")) {
		select {} // until it arrives
	}
	for syscall.Kill(os.Getppid(), 0) == nil && os.Getppid() > 1 {
		// until its agent is gone
		if b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")); err != nil || len(b) == 0 {
			return
		}
	}
}
