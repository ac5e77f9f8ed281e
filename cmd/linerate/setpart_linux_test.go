package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// TestSetPartlyConfirmed has the second host lose a change after the first one was
// told to keep it: the first one takes this change back, and keeps what a person
// had confirmed before.
func TestSetPartlyConfirmed(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	before := n.bothKnobs(t)
	older := onTerminal(t, n.inside(t, "near", "set", "tcp.timestamps=off", "tcp.sack=off", "--both", n.agent("far")))
	older.asked(t, "y\n")
	older.wait(t, patience).succeeds(t) // the older change
	kept := n.bothKnobs(t)

	tt := onTerminal(t, n.inside(t, "near", "set", "tcp.sack=on", "tcp.recv_buffer_max=64KiB", "--both", n.agent("far")))
	eventually(t, patience, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it? [y/N]") })
	far := relatives(tt.cmd.Process.Pid, n.dir).watchdogFar
	near := 0
	for pid, of := range processes() {
		if of == tt.cmd.Process.Pid && named(pid, "watchdog") {
			near = pid
		}
	}
	must.Need(t, far != 0 && near != 0, "watchdogs %d and %d", near, far)
	// The far watchdog is told and acts on it only when the near one is dead and its
	// change back.
	must.Do(t, unix.Kill(far, unix.SIGSTOP))
	tt.asked(t, "y\n")
	eventually(t, patience, "the confirmation on the far host", func() bool {
		told, err := os.ReadFile(filepath.Join(n.state("far"), "confirmed"))
		return err == nil && len(told) > 0
	})
	must.Do(t, unix.Kill(near, unix.SIGKILL))
	eventually(t, patience, "the rescue of the near host", func() bool { return n.knobs(t, "near") == kept.near })
	must.Do(t, unix.Kill(far, unix.SIGCONT))
	r := tt.wait(t, patience)
	must.True(t, r.code != 0 && r.code != 7, "exit code %d\n%s", r.code, r.out)
	n.restored(t, kept) // the older change, and nothing of this one
	for _, dir := range []string{n.dir, n.state("far")} {
		records, _, err := journal.Read(dir)
		left := journal.ConfirmedIntents(records)
		must.True(t, err == nil && len(left) == 2, "%s keeps %+v, %v", dir, left, err)
	}
	for _, args := range [][]string{{"undo", n.agent("far")}, {"undo"}} {
		r := run(t, n.inside(t, "near", args...))
		must.True(t, r.code == 0 && strings.Count(r.out, ": back to ") == 2, "%q: exit code %d\n%s%s", args, r.code, r.out, r.err)
	}
	n.restored(t, before)
}

// TestConfirmationWithoutAnswer: the only host that is told to keep a change does
// not answer as it should. Whether it has heard or not, the change goes back, and
// what a person had confirmed before stays.
func TestConfirmationWithoutAnswer(t *testing.T) {
	t.Parallel()
	needRoot(t)
	beside(t, map[string]func(*testing.T){
		"it has heard":     func(t *testing.T) { unanswered(t, true) },
		"it has not heard": func(t *testing.T) { unanswered(t, false) },
	})
}

// unanswered kills the agent that brought a confirmation to the far host, when it is on
// disk or, where the host has not heard, when that is prevented.
func unanswered(t testing.TB, heard bool) {
	n := newNetns(t)
	before := n.bothKnobs(t)
	older := onTerminal(t, n.inside(t, "near", "set", "tcp.timestamps=off", "tcp.sack=off", n.agent("far")))
	older.asked(t, "y\n")
	older.wait(t, patience).succeeds(t) // the older change
	stay := n.bothKnobs(t)
	tt := onTerminal(t, n.inside(t, "near", "set", "tcp.sack=on", "tcp.recv_buffer_max=64KiB", n.agent("far")))
	eventually(t, patience, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it? [y/N]") })
	first := relatives(tt.cmd.Process.Pid, n.dir)
	must.Need(t, first.watchdogFar != 0, "no watchdog on the far host")
	confirmation := filepath.Join(n.state("far"), "confirmed")
	if !heard { // a directory cannot be replaced by a file
		must.Do(t, os.MkdirAll(filepath.Join(confirmation, "full"), 0o700))
		tt.asked(t, "y\n")
	} else {
		// It is told, and heeds that only when whoever told it is gone.
		must.Do(t, unix.Kill(first.watchdogFar, unix.SIGSTOP))
		tt.asked(t, "y\n")
		eventually(t, patience, "the confirmation", func() bool {
			text, err := os.ReadFile(confirmation)
			return err == nil && len(text) > 0
		})
		second := 0
		for pid, of := range processes() {
			if of == tt.cmd.Process.Pid && named(pid, n.state("far")) && pid != first.agentFar {
				second = pid
			}
		}
		must.Need(t, second != 0, "no second agent on the far host")
		must.Do(t, unix.Kill(second, unix.SIGKILL))
		must.Do(t, unix.Kill(first.watchdogFar, unix.SIGCONT))
	}
	r := tt.wait(t, patience)
	must.True(t, r.code != 0 && r.code != 7, "exit code %d\n%s", r.code, r.out)
	n.restored(t, stay)
	must.OK(t, os.RemoveAll(confirmation))
	records, _, err := journal.Read(n.state("far"))
	left := journal.ConfirmedIntents(records)
	must.True(t, err == nil && len(left) == 2 && len(journal.OpenIntents(records)) == 0, "the far host keeps %+v, %v", left, err)
	if r := run(t, n.inside(t, "near", "undo", n.agent("far"))); r.code != 0 || strings.Count(r.out, ": back to ") != 2 {
		t.Errorf("undo: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	n.restored(t, before)
}
