package watchdog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
)

// TestCrashAfterEveryStepOfAConfirmation kills the agent, the watchdog and both
// after every step from the last of a change to the end of its confirmation. Before the confirmation is on
// disk all knobs go back; after it they stay, and Revert takes them back.
func TestCrashAfterEveryStepOfAConfirmation(t *testing.T) {
	b := fakeBench(t)
	before := b.values(t)
	steps := b.steps(t, confirmVar+"=1")
	// 3 knobs: intent, write, read, applied; then the confirmation.
	if len(steps) != 3*4+3 || steps[12] != "see confirmation" || steps[13] != "confirmed" {
		t.Fatalf("%d steps: %q", len(steps), steps)
	}
	after := b.values(t)
	if after["tcp.sack"] == before["tcp.sack"] {
		t.Fatal("what was confirmed did not stay")
	}
	b.reset(t, before)
	for _, target := range []string{"agent", "watchdog", "both"} {
		for n, step := range steps {
			if n < 11 {
				continue // as in TestCrashAfterEveryStepOnFakeTree
			}
			when := fmt.Sprintf("kill %s after %q", target, step)
			dir, _ := b.run(t, confirmVar+"=1", fmt.Sprintf("%s=%d:%s", crashVar, n+1, target))
			if target != "agent" {
				if _, err := Recover(t.Context(), Config{Dir: dir, Host: b.host}); err != nil {
					t.Errorf("%s: Recover: %v", when, err)
				}
			}
			records, damage, err := journal.Read(dir)
			if open := journal.OpenIntents(records); len(open) > 0 || len(damage) > 0 || err != nil {
				t.Errorf("%s: open %v, damage %v, %v", when, open, damage, err)
			}
			if n < 12 {
				b.expect(t, before, when)
				continue
			}
			b.expect(t, after, when)
			changes, err := Revert(t.Context(), Config{Dir: dir, Host: b.host})
			if err != nil || len(changes) != 3 || slices.ContainsFunc(changes, func(c model.Change) bool { return c.State != model.ChangeUndone }) {
				t.Errorf("%s: Revert = %+v, %v", when, changes, err)
			}
			b.expect(t, before, when+", then Revert")
			if changes, err := Revert(t.Context(), Config{Dir: dir, Host: b.host}); changes != nil || err != nil {
				t.Errorf("%s: second Revert = %+v, %v", when, changes, err)
			}
		}
	}
}

// reset puts the values of a bench back, as somebody else would.
func (b bench) reset(t *testing.T, values map[model.KnobID]string) {
	t.Helper()
	for id, raw := range values {
		_, p, err := b.host.Place(id)
		if err == nil {
			err = b.host.WriteRaw(t.Context(), id, p, raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestCrashAfterEveryStepOfARevert: the next linerate finishes what was killed, as
// far as the journal says that it is wanted back, and another Revert the rest.
func TestCrashAfterEveryStepOfARevert(t *testing.T) {
	b := fakeBench(t)
	before := b.values(t)
	dir, _ := b.run(t, confirmVar+"=1")
	path := filepath.Join(t.TempDir(), "steps")
	b.runIn(t, dir, "reverter", stepsVar+"="+path)
	b.expect(t, before, "after Revert")
	steps := stepsIn(t, path)
	if len(steps) != 3+3*3+1 { // revoked; look, restore, undone; and closed once
		t.Fatalf("%d steps: %q", len(steps), steps)
	}
	for n, step := range steps {
		dir, _ := b.run(t, confirmVar+"=1")
		b.runIn(t, dir, "reverter", fmt.Sprintf("%s=%d:watchdog", crashVar, n+1))
		// An agent that starts now finishes what was revoked, and leaves alone what is
		// confirmed still.
		if _, err := Recover(t.Context(), Config{Dir: dir, Host: b.host}); err != nil {
			t.Errorf("kill after %q: Recover: %v", step, err)
		}
		if records, _, _ := journal.Read(dir); len(journal.OpenIntents(records)) > 0 || len(journal.ConfirmedIntents(records)) != max(0, 2-n) {
			t.Errorf("kill after %q: after Recover %+v", step, records)
		}
		if _, err := Revert(t.Context(), Config{Dir: dir, Host: b.host}); err != nil {
			t.Errorf("kill after %q: Revert: %v", step, err)
		}
		b.expect(t, before, fmt.Sprintf("kill after %q", step))
		if records, _, _ := journal.Read(dir); len(journal.ConfirmedIntents(records)) > 0 {
			t.Errorf("kill after %q: still in the journal", step)
		}
	}
}

// confirmed has a watchdog apply and keep changes, and ends it.
func (d *desk) confirmed(pairs ...string) {
	d.t.Helper()
	d.start(d.t.Context(), sinceBoot)
	d.apply(pairs...)
	records, _, err := journal.Read(d.cfg.Dir)
	if err != nil || len(journal.OpenIntents(records)) == 0 {
		d.t.Fatalf("nothing is applied: %v", err)
	}
	id := records[len(records)-1].Transaction
	if err := errors.Join(Confirm(d.t.Context(), d.cfg, id), d.stop()); err != nil {
		d.t.Fatal(err)
	}
}

func TestConfirmedTwice(t *testing.T) {
	for name, c := range map[string]struct {
		between string // what somebody else sets between the two
		last    string // and after them
		state   model.ChangeState
		holds   string
	}{
		"undisturbed":     {"", "", model.ChangeUndone, "1"},
		"foreign between": {"5", "", model.ChangeUndone, "5"},
		"foreign after":   {"", "9", model.ChangeForeign, "9"},
		"back already":    {"", "1", model.ChangeUndone, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, t.TempDir())
			d.confirmed("tcp.sack", "0")
			d.expect(sack, "0")
			if c.between != "" {
				d.memory.Set(sack, c.between)
			}
			// A session that tries something and undoes it leaves what was kept.
			d.start(t.Context(), sinceBoot)
			d.apply("tcp.recv_buffer_max", "1MiB")
			if err := d.stop(); err != nil {
				t.Fatal(err)
			}
			d.confirmed("tcp.sack", "1", "tcp.timestamps", "0")
			if c.last != "" {
				d.memory.Set(sack, c.last)
			}
			changes, err := Revert(t.Context(), d.cfg)
			i := slices.IndexFunc(changes, func(c model.Change) bool { return c.Knob == "tcp.sack" })
			if err != nil || len(changes) != 2 || i < 0 || changes[i].State != c.state || strings.Contains(changes[i].Detail, "somebody else had set") != (c.between != "") {
				t.Errorf("Revert = %+v, %v", changes, err)
			}
			if c.state == model.ChangeUndone && changes[i].Old != c.holds {
				t.Errorf("it says that it goes back to %q", changes[i].Old)
			}
			d.expect(sack, c.holds)
			d.expect(place("net.ipv4.tcp_timestamps"), "1")
		})
	}
}

// TestConfirmComesLate: what went back cannot be kept any more, and a
// confirmation that nobody read does not keep a later change.
func TestConfirmComesLate(t *testing.T) {
	d := newDesk(t, t.TempDir())
	d.start(t.Context(), sinceBoot)
	d.apply("tcp.sack", "0")
	records, _, err := journal.Read(d.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	id := records[0].Transaction
	if r := d.call(request{Op: opUndo}); r.Error != nil {
		t.Fatal(r.Error)
	}
	if err := Confirm(t.Context(), d.cfg, id); !errors.Is(err, ErrNotPending) {
		t.Errorf("Confirm after Undo = %v", err)
	}
	if err := Confirm(t.Context(), d.cfg, "of nobody"); !errors.Is(err, ErrNotPending) {
		t.Errorf("Confirm of nothing = %v", err)
	}
	if err := journal.Confirm(d.cfg.Dir, id); err != nil {
		t.Fatal(err)
	}
	d.apply("tcp.timestamps", "0")
	if r := d.call(request{Op: opVerify}); r.Error != nil || len(r.Mismatches) > 0 {
		t.Errorf("Verify = %+v", r)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.expect(place("net.ipv4.tcp_timestamps"), "1")
	if left, _ := filepath.Glob(filepath.Join(d.cfg.Dir, "confirmed*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestConfirmNeedsAWatchdog: a confirmation that finds nobody waits as long as
// it may.
func TestConfirmNeedsAWatchdog(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = j.Append(journal.Record{Kind: journal.KindIntent, Transaction: "t", Number: 1, Intent: &journal.Intent{
		Host: model.Near, Knob: "tcp.sack", Place: sack, Old: "1", New: "0", Origin: journal.Here(),
	}})
	if err := errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*retry)
	defer cancel()
	if err := Confirm(ctx, Config{Dir: dir}, "t"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Confirm = %v", err)
	}
}

// TestRevertAfterRestart: a restart of the machine has forgotten the change.
func TestRevertAfterRestart(t *testing.T) {
	d := newDesk(t, t.TempDir())
	j, err := journal.Open(d.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	here := journal.Here()
	for i, o := range []journal.Origin{{Boot: "other", Netns: here.Netns}, {Boot: here.Boot, Netns: here.Netns + 1}} {
		id := []string{"boot", "namespace"}[i]
		err = errors.Join(err,
			j.Append(journal.Record{Kind: journal.KindIntent, Transaction: id, Number: 1, Time: time.Now(), Intent: &journal.Intent{
				Host: model.Near, Knob: "tcp.sack", Place: sack, Old: "1", New: "0", Origin: o,
			}}),
			j.Append(journal.Record{Kind: journal.KindConfirmed, Transaction: id, Time: time.Now()}))
	}
	if err := errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
	d.memory.Set(sack, "0")
	changes, err := Revert(t.Context(), d.cfg)
	if err != nil || len(changes) != 2 || changes[0].State != model.ChangeForeign || changes[1].State != model.ChangeApplied {
		t.Errorf("Revert = %+v, %v", changes, err)
	}
	d.expect(sack, "0")
}
