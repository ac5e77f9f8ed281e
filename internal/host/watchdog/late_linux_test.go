package watchdog

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	"linerate/internal/host/knob"
	"linerate/internal/must"
)

// TestLateConfirmation: a confirmation that arrives while the watchdog is already undoing has
// no effect. The agent gets the undo that it asked for, the confirming process gets an error,
// and nothing of the confirmation is left.
func TestLateConfirmation(t *testing.T) {
	for name, moment := range map[string]func(d *desk, id string, late func()){
		"in a second Apply that fails": func(d *desk, _ string, late func()) {
			d.memory.Refuse = func(p knob.Place, raw string) error {
				if p != rmem || strings.HasSuffix(raw, "33554432") {
					return nil
				}
				late()
				return syscall.EINVAL
			}
			a := d.apply("tcp.timestamps", "0", "tcp.recv_buffer_max", "64KiB")
			must.True(d.t, a.Error != nil, "the second Apply = %+v", a)
		},
		"between the looks before an Undo": func(d *desk, _ string, late func()) {
			d.memory.Refuse = func(knob.Place, string) error { late(); return nil }
			a := d.call(request{Op: opUndo})
			must.True(d.t, len(a.Changes) == 1 && a.Changes[0].State == model.ChangeUndone && a.Error == nil, "Undo = %+v", a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.start(t.Context(), sinceBoot)
			id := d.apply("tcp.sack", "0").Transaction
			var once atomic.Bool
			moment(d, id, func() {
				if !once.Swap(true) {
					must.OK(t, d.state().Confirm(id))
				}
			})
			d.memory.Refuse = nil
			d.wentBack(id)
			must.OK(t, d.stop())
		})
	}
}

// wentBack demands that a transaction is undone and can no longer be confirmed.
func (d *desk) wentBack(id string) {
	d.t.Helper()
	d.expect(sack, "1")
	d.expect(rmem, "4096\t131072\t33554432")
	ctx, cancel := context.WithTimeout(d.t.Context(), 10*time.Second)
	defer cancel()
	must.Is(d.t, Confirm(ctx, d.cfg, id), ErrNotPending, "Confirm")
	records, _, err := d.state().Read()
	kept := journal.ConfirmedIntents(records)
	must.True(d.t, len(kept) == 0 && err == nil, "kept: %+v, %v", kept, err)
	must.True(d.t, !slices.Contains(d.disk.Names(stateDir), "confirmed"), "the confirmation is still there")
}

// TestConfirmationAtTheDeadline: a confirmation arrives between the last check and the
// deadline. The watchdog reports to the agent that the changes were undone, and they are.
func TestConfirmationAtTheDeadline(t *testing.T) {
	d := newDesk(t)
	var late atomic.Pointer[string]
	clock := func() time.Duration {
		// The loop also computes how long it may wait, and checks for confirmations after
		// that.
		if !calledBy("watchDeadline") {
			return sinceBoot()
		}
		id := late.Swap(nil)
		if id == nil {
			return sinceBoot()
		}
		must.OK(t, d.state().Confirm(*id))
		return sinceBoot() + time.Hour
	}
	d.start(t.Context(), clock)
	id := d.apply("tcp.sack", "0").Transaction
	late.Store(&id)
	v := d.call(request{Op: opVerify})
	must.True(t, errors.Is(v.err(), ErrExpired), "Verify = %+v", v)
	d.wentBack(id)
	u := d.call(request{Op: opUndo})
	must.True(t, errors.Is(u.err(), ErrExpired) && len(u.Changes) == 1 && u.Changes[0].State == model.ChangeUndone, "Undo = %+v", u)
	must.OK(t, d.stop())
}

// calledBy reports whether a method of that name is on the caller's stack.
func calledBy(name string) bool {
	pcs := make([]uintptr, 8)
	frame, _ := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)]).Next()
	return strings.HasSuffix(frame.Function, ")."+name)
}

// TestConfirmWhatIsGoingBack: a transaction with one setting undone and one pending, because
// its driver is busy, is not over and cannot be confirmed.
func TestConfirmWhatIsGoingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.start(t.Context(), fake())
		id := d.apply("tcp.sack", "0", "tcp.timestamps", "0").Transaction
		free, _ := d.busyUntil(syscall.EBUSY)
		u := d.call(request{Op: opUndo})
		must.True(t, u.Error != nil, "Undo = %+v", u)
		err := Confirm(t.Context(), d.cfg, id)
		must.True(t, errors.Is(err, ErrNotPending) && strings.Contains(err.Error(), "a part of it is back already"), "Confirm = %v", err)
		free()
		must.OK(t, d.stop())
		err = Confirm(t.Context(), d.cfg, id)
		must.True(t, errors.Is(err, ErrNotPending) && strings.Contains(err.Error(), "nothing of that is applied any more"), "Confirm afterwards = %v", err)
		d.expect(sack, "1")
	})
}

// underAnOpenOne confirms tcp.sack=off, then leaves open a change back to on above it, as a
// killed watchdog does.
func underAnOpenOne(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t)
	d.confirmed("tcp.sack", "0")
	d.start(t.Context(), sinceBoot)
	d.apply("tcp.sack", "1")
	var copies [][]byte
	for _, path := range journal.Files(stateDir) {
		copies = append(copies, must.Get(d.cfg.sys.files.Read(path))(t))
	}
	must.Do(t, d.stop())
	for i, path := range journal.Files(stateDir) {
		d.disk.Edit(path, func([]byte) []byte { return copies[i] })
	}
	records, _, err := d.state().Read()
	open, kept := journal.OpenIntents(records), journal.ConfirmedIntents(records)
	must.Need(t, len(open) == 1 && len(kept) == 1 && err == nil, "open %+v, confirmed %+v, %v", open, kept, err)
	return d
}

// TestRevertUnderWhatIsOpen: Revert undoes a confirmed change together with the open change
// above it, also if the open change is already undone without a record in the journal, or if
// the driver is busy and would refuse the value between the two.
func TestRevertUnderWhatIsOpen(t *testing.T) {
	for name, c := range map[string]struct {
		holds string
		busy  bool
	}{"open": {"1", false}, "busy driver": {"1", true}, "back without a record": {"0", false}} {
		t.Run(name, func(t *testing.T) {
			d := underAnOpenOne(t)
			d.memory.Set(sack, c.holds)
			if c.busy {
				d.memory.Refuse = func(knob.Place, string) error { return syscall.EBUSY }
			}
			changes, err := Revert(t.Context(), d.cfg)
			d.memory.Refuse = nil
			must.True(t, err == nil && len(changes) == 1 && changes[0].State == model.ChangeUndone, "Revert = %+v, %v", changes, err)
			d.expect(sack, "1")
			must.Len(t, must.Get(Revert(t.Context(), d.cfg))(t), 0, "Revert again")
		})
	}
}

// TestRevertIsFinished: a Revert that is killed or finds the driver busy has already recorded
// itself in the journal, so the next process finishes it unasked.
func TestRevertIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.confirmed("tcp.sack", "0", "tcp.timestamps", "0")
		free, _ := d.busyUntil(syscall.EBUSY)
		if changes, err := Revert(t.Context(), d.cfg); stuck(err) == nil {
			t.Errorf("Revert = %+v, %v", changes, err)
		}
		d.expect(sack, "0")
		free()
		changes := must.Get(Recover(t.Context(), d.cfg))(t)
		must.True(t, len(changes) == 1 && changes[0].Knob == "tcp.sack" && changes[0].State == model.ChangeUndone, "Recover = %+v", changes)
		d.expect(sack, "1")
	})
}
