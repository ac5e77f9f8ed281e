package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/host/journal"
)

// TestSetPartlyConfirmed has the second host lose a change after the first one was
// told to keep it: the first one takes this change back, and keeps what a person
// had confirmed before.
func TestSetPartlyConfirmed(t *testing.T) {
	needRoot(t)
	n := newNetns(t)
	before := n.bothKnobs(t)
	older := onTerminal(t, n.inside(t, "a", "set", "tcp.timestamps=off", "tcp.sack=off", "--both", n.agent("b")))
	older.asked(t, "y\n")
	if r := older.wait(t, 40*time.Second); r.code != 0 {
		t.Fatalf("the older change: exit code %d\n%s", r.code, r.out)
	}
	kept := n.bothKnobs(t)

	tt := onTerminal(t, n.inside(t, "a", "set", "tcp.sack=on", "tcp.recv_buffer_max=64KiB", "--both", n.agent("b")))
	eventually(t, time.Minute, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it? [y/N]") })
	far := relatives(tt.cmd.Process.Pid, n.dir).dogB
	near := 0
	for pid, of := range processes() {
		if of == tt.cmd.Process.Pid && named(pid, "watchdog") {
			near = pid
		}
	}
	if far == 0 || near == 0 {
		t.Fatalf("watchdogs %d and %d", near, far)
	}
	// The far watchdog is told and acts on it only when the near one is dead and its
	// change back.
	if err := unix.Kill(far, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	tt.asked(t, "y\n")
	eventually(t, time.Minute, "the confirmation on host b", func() bool {
		told, err := filepath.Glob(n.state("b") + "/confirmed")
		return err == nil && len(told) > 0
	})
	if err := unix.Kill(near, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the rescue of host a", func() bool { return n.knobs(t, "a") == kept.a })
	if err := unix.Kill(far, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r := tt.wait(t, time.Minute)
	if r.code == 0 || r.code == 7 {
		t.Errorf("exit code %d\n%s", r.code, r.out)
	}
	n.restored(t, kept) // the older change, and nothing of this one
	for _, dir := range []string{n.dir, n.state("b")} {
		records, _, err := journal.Read(dir)
		if left := journal.ConfirmedIntents(records); err != nil || len(left) != 2 {
			t.Errorf("%s keeps %+v, %v", dir, left, err)
		}
	}
	for _, args := range [][]string{{"undo", n.agent("b")}, {"undo"}} {
		if r := run(t, n.inside(t, "a", args...)); r.code != 0 || strings.Count(r.out, ": back to ") != 2 {
			t.Errorf("%q: exit code %d\n%s%s", args, r.code, r.out, r.err)
		}
	}
	n.restored(t, before)
}
