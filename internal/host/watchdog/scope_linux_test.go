package watchdog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/command"
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

// systemd makes a root directory where this process is in a unit and systemd-run is a script.
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

// enters is a systemd-run that records its arguments and executes the command.
const enters = `echo "$@" >> "$(dirname "$0")/told"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"`

// TestScope: the watchdog starts in its own systemd scope if there is a unit to leave, and
// warns if that fails.
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
			w := must.Get(Start(t.Context(), Config{Dir: dir, Host: b.host, Root: root, Command: os.Args[:1], Talk: &said}))(t)
			_, err := w.Apply(t.Context(), b.changes, time.Minute)
			must.OK(t, errors.Join(err, w.Close()))
			b.expect(t, before, "the end")
			must.True(t, (c.says != "" || said.Len() <= 0) && strings.Contains(said.String(), c.says) &&
				(name != "no bus" || strings.Contains(said.String(), "Failed to connect to bus")), "it says %q", said.String())
			told, err := os.ReadFile(filepath.Join(root, "usr/bin/told"))
			want := slices.Contains([]string{"service", "session"}, name)
			must.Need(t, (err == nil) == want, "systemd was asked: %v", err)
			must.True(t, !want || strings.HasPrefix(string(told), fmt.Sprintf("--scope --quiet --collect --unit=linerate-undo-%d-", os.Getpid())),
				"systemd was asked for %q", told)
		})
	}
}

// TestScopeOfNobody: without systemd-run there is a warning, and without systemd none.
func TestScopeOfNobody(t *testing.T) {
	root := systemd(t, "linerate.service", enters)
	must.Do(t, os.Remove(filepath.Join(root, "usr/bin/systemd-run")))
	s := findScope(root)
	must.True(t, s.unit == "linerate.service" && s.prefix == nil && s.why != "", "without systemd-run: %+v", s)
	must.Do(t, os.RemoveAll(filepath.Join(root, "run")))
	s = findScope(root)
	must.True(t, s.unit == "" && s.prefix == nil, "without systemd: %+v", s)
}

// TestScopeThatDoesNotAnswer: a hanging systemd delays Start for a short time only.
func TestScopeThatDoesNotAnswer(t *testing.T) {
	b, root := fakeBench(t), systemd(t, "linerate.service", "")
	stuckProgram, err := os.ReadFile("/bin/sleep")
	if err == nil { // a script's process would have its interpreter's name
		err = os.WriteFile(filepath.Join(root, "usr/bin/systemd-run"), stuckProgram, 0o755)
	}
	must.Do(t, err)
	s := findScope(root)
	s.prefix = []string{s.prefix[0], "1000000"} // the remaining arguments are more time to sleep
	t.Setenv(roleVar, "watchdog")
	c, err := startProcess(t.Context(), Config{Dir: t.TempDir(), Host: b.host}, s.prefix, s.prefix[0])
	must.Is(t, err, ErrGone, "Start = %+v", c)
}

// cgroup makes a cgroup for the test, below the root of the unified hierarchy.
func cgroup(t *testing.T, name string) string {
	t.Helper()
	for _, at := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if !exists(filepath.Join(at, "cgroup.procs")) || !exists(filepath.Join(at, "cgroup.controllers")) {
			continue
		}
		dir := filepath.Join(at, fmt.Sprintf("linerate-test-%d-%s", os.Getpid(), name))
		err := os.Mkdir(dir, 0o755)
		must.SkipIf(t, err != nil, "no cgroup of its own: %v", err)
		t.Cleanup(func() {
			_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
			must.Until(t, "the end of "+dir, func() bool { return os.Remove(dir) == nil })
		})
		return dir
	}
	t.Skip("no cgroup v2 here")
	return ""
}

// TestKilledCgroup kills everything in the agent's cgroup, as systemctl stop does: the
// watchdog, in another cgroup, undoes.
func TestKilledCgroup(t *testing.T) {
	must.SkipIf(t, os.Geteuid() != 0, "needs root")
	unit, scope := cgroup(t, "unit"), cgroup(t, "scope")
	b := fakeBench(t)
	before := b.values(t)
	applied := strconv.Itoa(slices.Index(b.steps(t), "applied tcp.recv_buffer_max") + 1)
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

// joinCgroup moves this process, and so its later children, into a cgroup.
func joinCgroup(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// killCgroup kills everything in a cgroup and waits until all but this process have ended.
func killCgroup(dir string) {
	orPanic(os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0))
	if unit, err := os.ReadFile("/proc/self/cgroup"); err == nil && bytes.Contains(unit, []byte(filepath.Base(dir)+"\n")) {
		select {} // wait for the signal
	}
	for syscall.Kill(os.Getppid(), 0) == nil && os.Getppid() > 1 {
		// wait until the agent is gone
		if b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")); err != nil || len(b) == 0 {
			return
		}
	}
}

// switchBench is a fake tree with a setting and a command, which creates the file state when
// turned on.
func switchBench(t *testing.T) (b bench, state string) {
	t.Helper()
	b = fakeBench(t)
	state = filepath.Join(t.TempDir(), "state")
	b.changes = []model.Assignment{
		{Host: model.Far, Knob: "cmd:shaper", Value: model.On, Command: model.Command{Run: "echo on >" + state, Undo: "rm " + state, Limit: 10 * time.Second}},
		{Host: model.Far, Knob: "tcp.sack", Value: "0"},
		{Host: model.Far, Knob: "cmd:idle", Value: model.Off, Command: model.Command{Run: "exit 9", Undo: "exit 9", Limit: time.Second}},
	}
	return b, state
}

func (b bench) sack(t *testing.T) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(b.host.ProcSys, "net", "ipv4", "tcp_sack")))(t)
	return strings.TrimSpace(string(text))
}

// TestCrashAfterEveryStepOfACommand: whichever process is killed after whichever step, the
// command is turned off again and no change stays open.
func TestCrashAfterEveryStepOfACommand(t *testing.T) {
	t.Parallel()
	b, state := switchBench(t)
	steps := b.steps(t)
	want := []string{
		"intent tcp.sack", "intent cmd:shaper", "write tcp.sack", "read tcp.sack", "applied tcp.sack", "write cmd:shaper", "applied cmd:shaper",
		"restore cmd:shaper", "undone cmd:shaper", "look tcp.sack", "restore tcp.sack", "undone tcp.sack", "closed",
	}
	must.Need(t, slices.Equal(steps, want), "steps %q", steps)
	b.changes[0].Command.Undo = "rm -f " + state
	for _, target := range []string{"agent", "watchdog", "both"} {
		for n, step := range steps[:9] { // later steps belong to the setting
			if target == "agent" && !strings.Contains(step, "cmd:") {
				continue
			}
			when := fmt.Sprintf("kill %s after %q", target, step)
			dir, _ := b.run(t, fmt.Sprintf("%s=%d:%s", crashVar, n+1, target))
			if target != "agent" {
				must.OK(t, must.Err(Recover(t.Context(), Config{Dir: dir, Host: b.host})), "%s: Recover", when)
			}
			if _, err := os.Stat(state); !errors.Is(err, fs.ErrNotExist) || b.sack(t) != "1" {
				t.Errorf("%s: still on (%v), sack %s", when, err, b.sack(t))
			}
			records, damage, err := journal.Read(dir)
			open := journal.OpenIntents(records)
			must.True(t, len(open) == 0 && len(damage) == 0 && err == nil, "%s: open %v, damage %v, %v", when, open, damage, err)
		}
	}
}

// TestCommandThatFails: a failing command undoes the changes before it, its output is in the
// error, and no change stays open.
func TestCommandThatFails(t *testing.T) {
	t.Parallel()
	b, _ := switchBench(t)
	b.changes[0].Command.Run = "echo no such device >&2; exit 2"
	m := testMachine(t, Config{Dir: t.TempDir(), Host: b.host})
	changes, err := testServer(m).apply(t.Context(), request{Changes: b.changes, Deadline: time.Minute})
	e, ok := errors.AsType[*command.Error](err)
	must.Need(t, ok && e.Status == 2 && strings.Contains(err.Error(), "no such device") && b.sack(t) == "1", "%v, sack %s", err, b.sack(t))
	i := slices.IndexFunc(changes, func(c model.Change) bool { return c.Knob == "cmd:shaper" })
	must.True(t, i >= 0 && changes[i].State == model.ChangeFailed && strings.Contains(changes[i].Detail, "it had failed, and its undo failed too"), "%+v", changes)
	must.Len(t, m.j.OpenIntents(), 0, "open")
}

// TestUndoCommandIsTriedAgain: a failed undo stays open until a retry succeeds. Until then
// the command is not run again.
func TestUndoCommandIsTriedAgain(t *testing.T) {
	t.Parallel()
	b, state := switchBench(t)
	free := state + ".free"
	b.changes[0].Command.Undo = "test -e " + free + " && rm " + state
	m := testMachine(t, Config{Dir: t.TempDir(), Host: b.host})
	s := testServer(m)
	must.Get(s.apply(t.Context(), request{Changes: b.changes, Deadline: time.Minute}))(t)
	changes, err := s.undoOpen(t.Context())
	left := stuck(err)
	must.Need(t, left != nil && left.Open == 1 && changes[0].State == model.ChangeFailed && b.sack(t) == "1", "%v, %+v", err, changes)
	must.Fail(t, must.Err(s.apply(t.Context(), request{Changes: b.changes, Deadline: time.Minute})), "it was run on top of one that is not undone")
	must.Do(t, os.WriteFile(free, nil, 0o600))
	must.OK(t, must.Err(s.undoOpen(t.Context())))
	if _, err := os.Stat(state); !errors.Is(err, fs.ErrNotExist) || len(m.j.OpenIntents()) > 0 {
		t.Errorf("%v, open %v", err, m.j.OpenIntents())
	}
}

func testServer(m *machine) *server {
	return &server{m: m, cfg: Config{Host: m.host, sys: m.sys}, dir: journal.Dir{Path: filepath.Dir(m.j.Path())}, clock: sinceBoot}
}

// testMachine is a machine with its own journal.
func testMachine(t *testing.T, cfg Config) *machine {
	t.Helper()
	j := must.Get(journal.Open(cfg.Dir))(t)
	t.Cleanup(func() { must.OK(t, j.Close()) })
	return newMachine(cfg, j)
}
