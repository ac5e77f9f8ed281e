package watchdog

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		begin := time.Now()
		var asleep atomic.Int64 // that timers do not see
		d.cfg.Cap = 2 * time.Minute
		d.start(t.Context(), func() time.Duration { return time.Since(begin) + time.Duration(asleep.Load()) })

		d.apply("tcp.sack", "0") // a minute
		<-time.After(59 * time.Second)
		d.expect(sack, "0")
		a := d.call(request{Op: opExtend, Deadline: 30 * time.Second})
		must.Need(t, a.Error == nil, "%v", a.Error)
		<-time.After(29 * time.Second)
		synctest.Wait()
		d.expect(sack, "0")
		<-time.After(2 * time.Second)
		synctest.Wait()
		d.expect(sack, "1") // undone with nobody asking
		for _, r := range []request{{Op: opVerify}, {Op: opExtend, Deadline: time.Second}, {Op: opApply, Deadline: time.Second}} {
			a := d.call(r)
			must.True(t, errors.Is(a.err(), ErrExpired), "%s after the deadline = %v, want ErrExpired", r.Op, a.err())
		}
		u := d.call(request{Op: opUndo})
		must.True(t, errors.Is(u.err(), ErrExpired) && len(u.Changes) == 1 && u.Changes[0].State == model.ChangeUndone,
			"Undo after the deadline = %+v", u)

		if a := d.apply("tcp.sack", "0"); a.Error != nil {
			t.Fatalf("Apply after the acknowledged end = %v", a.Error)
		}
		asleep.Store(int64(time.Hour)) // the machine sleeps and wakes up
		<-time.After(look)
		synctest.Wait()
		d.expect(sack, "1")
		d.call(request{Op: opUndo})

		for _, bad := range []time.Duration{0, -1, 3 * time.Minute} {
			must.True(t, d.call(request{Op: opApply, Deadline: bad}).Error != nil, "deadline %s was accepted", bad)
		}
		must.OK(t, d.stop())
	})
}

// TestFailedUndoOfTheDeadlineIsTriedAgain: with an agent that asks for nothing,
// and reported once.
func TestFailedUndoOfTheDeadlineIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		var busy atomic.Bool
		d.memory.Refuse = func(p hostknob.Place, _ string) error {
			if p == sack && busy.Load() {
				return syscall.EBUSY
			}
			return nil
		}
		begin := time.Now()
		d.start(t.Context(), func() time.Duration { return time.Since(begin) })
		d.apply("tcp.sack", "0", "tcp.timestamps", "0")
		busy.Store(true)
		<-time.After(time.Minute + look)
		synctest.Wait()
		d.expect(sack, "0")
		d.expect(place("net.ipv4.tcp_timestamps"), "1")
		busy.Store(false)
		<-time.After(longestRetry + look)
		synctest.Wait()
		d.expect(sack, "1")
		u := d.call(request{Op: opUndo})
		if !errors.Is(u.err(), ErrExpired) || len(u.Changes) != 2 ||
			u.Changes[0].State != model.ChangeUndone || u.Changes[1].State != model.ChangeUndone {
			t.Errorf("Undo = %+v, want each knob once, undone", u)
		}
		must.OK(t, d.stop())
	})
}
