package watchdog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/command"
	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// switchBench is a fake tree with a setting and a command, which has left the file
// state while it is on.
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

// TestCrashAfterEveryStepOfACommand: whatever is killed after whatever step, what a
// command turned on is off again, and nothing stays open.
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
		for n, step := range steps[:9] { // what follows is of the setting
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

// TestCommandThatFails takes back what came before it, tells what it printed, and
// does not stay open when there is nothing to undo.
func TestCommandThatFails(t *testing.T) {
	t.Parallel()
	b, _ := switchBench(t)
	b.changes[0].Command.Run = "echo no such device >&2; exit 2"
	dir := t.TempDir()
	m := testMachine(t, Config{Dir: dir, Host: b.host})
	s := testServer(m)
	changes, err := s.apply(t.Context(), request{Changes: b.changes, Deadline: time.Minute})
	e, ok := errors.AsType[*command.Error](err)
	if !ok || e.Status != 2 || !strings.Contains(err.Error(), "no such device") || b.sack(t) != "1" {
		t.Fatalf("%v, sack %s", err, b.sack(t))
	}
	i := slices.IndexFunc(changes, func(c model.Change) bool { return c.Knob == "cmd:shaper" })
	must.True(t, i >= 0 && changes[i].State == model.ChangeFailed && strings.Contains(changes[i].Detail, "it had failed, and its undo failed too"),
		"%+v", changes)
	must.Len(t, m.j.OpenIntents(), 0, "open")
}

// TestUndoCommandIsTriedAgain: an undo that fails stays open, and is over when it
// succeeds. Until then the command is not run again.
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

// testMachine is a machine with a journal of its own.
func testMachine(t *testing.T, cfg Config) *machine {
	t.Helper()
	j := must.Get(journal.Open(cfg.Dir))(t)
	t.Cleanup(func() {
		must.OK(t, j.Close())
	})
	return newMachine(cfg, j)
}
