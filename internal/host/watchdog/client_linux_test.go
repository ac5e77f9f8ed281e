package watchdog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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

// start starts a watchdog process with this test as its agent.
func start(t *testing.T, b bench, dir string) *Client {
	t.Helper()
	t.Setenv(roleVar, "watchdog")
	c := must.Get(Start(t.Context(), Config{Dir: dir, Host: b.host, Command: os.Args[:1]}))(t)
	t.Cleanup(func() { _ = c.Close() }) // tests that check Close call it themselves
	return c
}

// stopped waits until all threads of a process have stopped: SIGSTOP returns earlier. The
// state is the third field of /proc/PID/task/TID/stat:
//
//	4711 (watchdog.test) T 4700 ...
func stopped(t *testing.T, pid int) {
	t.Helper()
	must.Until(t, "all threads to stop", func() bool {
		all := must.Get(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)))(t)
		must.Need(t, len(all) != 0, "threads of %d: %q", pid, all)
		return !slices.ContainsFunc(all, func(path string) bool {
			b, err := os.ReadFile(path)
			_, rest, _ := strings.Cut(string(b), ") ")
			return err == nil && !strings.HasPrefix(rest, "T")
		})
	})
}

func TestClient(t *testing.T) {
	b, dir := fakeBench(t), t.TempDir()
	before := b.values(t)
	c := start(t, b, dir)
	changes, err := c.Apply(t.Context(), b.changes, time.Minute)
	must.Need(t, err == nil && len(changes) == 3, "Apply = %+v, %v", changes, err)
	values, err := c.Read(t.Context(), []model.KnobID{"tcp.sack", "link.mtu"})
	v, ok := values["tcp.sack"].Get()
	must.True(t, v == "0" && ok && !values["link.mtu"].IsKnown() && err == nil, "Read = %v, %v", values, err)
	must.OK(t, c.Extend(t.Context(), time.Hour))
	must.Len(t, must.Get(c.Verify(t.Context()))(t), 0, "Verify")

	// A second watchdog cannot take over, and nothing of the first is undone.
	_, err = Start(t.Context(), Config{Dir: dir, Host: b.host, Command: os.Args[:1], Patience: time.Millisecond})
	must.True(t, errors.Is(err, journal.ErrLocked) && strings.Contains(err.Error(), "process "+strconv.Itoa(c.process.pid)),
		"second Start = %v, want ErrLocked and the holder", err)
	must.Is(t, must.Err(Recover(t.Context(), Config{Dir: dir, Host: b.host, Patience: time.Millisecond})), journal.ErrLocked, "Recover")
	must.Len(t, must.Get(c.Verify(t.Context()))(t), 0, "Verify")

	pid := c.process.pid
	must.Do(t, syscall.Kill(pid, syscall.SIGSTOP))
	stopped(t, pid)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for range 2 { // the first sends a request, the second does not
		must.Is(t, c.Extend(short, time.Minute), context.DeadlineExceeded, "Extend with an ended context")
	}
	must.Do(t, syscall.Kill(pid, syscall.SIGCONT))
	must.Len(t, must.Get(c.Verify(t.Context()))(t), 0, "Verify") // the late reply is not mistaken for this one
	for range 2 {
		must.OK(t, c.Close(), "Close")
	}
	b.expect(t, before, "after Close")
	must.Is(t, must.Err(c.Verify(t.Context())), ErrGone, "Verify after Close")
}

func TestSignals(t *testing.T) {
	b := fakeBench(t)
	before := b.values(t)
	c := start(t, b, t.TempDir())
	must.Get(c.Apply(t.Context(), b.changes, time.Minute))(t)
	pid := c.process.pid
	sid, err := syscall.Getpgid(pid)
	must.True(t, sid == pid && err == nil, "the watchdog is in group %d, %v: not its own", sid, err)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		must.Do(t, syscall.Kill(pid, s))
		must.Len(t, must.Get(c.Verify(t.Context()))(t), 0, "Verify after %v", s)
	}
	must.Do(t, syscall.Kill(pid, syscall.SIGTERM))
	<-c.gone
	b.expect(t, before, "after SIGTERM")
}

// TestKilledWatchdogIsReplaced: if the watchdog is killed, the agent undoes the changes
// itself and reports the outcome of each.
func TestKilledWatchdogIsReplaced(t *testing.T) {
	b, dir := fakeBench(t), t.TempDir()
	before := b.values(t)
	c := start(t, b, dir)
	must.Get(c.Apply(t.Context(), b.changes, time.Minute))(t)
	must.Do(t, c.process.kill())
	<-c.gone
	b.expect(t, before, "after the watchdog was killed")
	if changes, err := c.Undo(t.Context()); !errors.Is(err, ErrGone) || len(changes) != 3 || changes[0].State != model.ChangeUndone {
		t.Errorf("Undo = %+v, %v, want what was undone and ErrGone", changes, err)
	}
	changes, err := Recover(t.Context(), Config{Dir: dir, Host: b.host})
	must.True(t, len(changes) == 0 && err == nil, "Recover = %+v, %v, want nothing left", changes, err)
	err = c.Close()
	must.True(t, err == nil, "Close = %v, although all is undone", err)
}

// TestDeadlineWhileTheAgentHangs: a stopped agent sends no request and does not close its
// pipe, so the watchdog undoes at the deadline. The agent learns of it when it continues.
func TestDeadlineWhileTheAgentHangs(t *testing.T) {
	b := fakeBench(t)
	before := b.values(t)
	last := slices.Index(b.steps(t), "applied tcp.recv_buffer_max") + 1 // decreases are applied last
	_, said := b.run(t, fmt.Sprintf("%s=%d:stop", crashVar, last), deadlineVar+"=500ms")
	b.expect(t, before, "after the deadline")
	must.Contain(t, said, ErrExpired.Error(), "the agent says")
}

func TestStartWithoutADirectory(t *testing.T) {
	t.Setenv(roleVar, "watchdog")
	file := filepath.Join(t.TempDir(), "file")
	setFile(t, file, "in the way")
	_, err := Start(t.Context(), Config{Dir: filepath.Join(file, "state"), Command: os.Args[:1]})
	must.True(t, err != nil && strings.Contains(err.Error(), "state directory") && !errors.Is(err, ErrGone), "Start = %v, want the reason", err)
}

func TestStartOfSomethingElse(t *testing.T) {
	_, err := Start(t.Context(), Config{Dir: t.TempDir(), Command: []string{"/bin/sh", "-c", "echo no such thing >&2", "sh"}})
	must.True(t, errors.Is(err, ErrGone) && strings.Contains(err.Error(), "no such thing"), "Start = %v, want ErrGone and what the program said", err)
	must.Fail(t, must.Err(Start(t.Context(), Config{Command: []string{filepath.Join(t.TempDir(), "none")}})), "Start of a missing program succeeded")
}

func TestArgsRoundTrip(t *testing.T) {
	want := Config{Dir: "/a b", Host: knob.Host{ProcSys: "/p", Interface: "eth0"}, Cap: time.Hour, Patience: time.Second}
	got, err := ParseArgs(want.Args())
	must.True(t, err == nil && got.Dir == want.Dir && got.Host.ProcSys == "/p" && got.Host.Interface == "eth0" &&
		got.Cap == time.Hour && got.Patience == time.Second, "ParseArgs(Args) = %+v, %v", got, err)
	must.Fail(t, must.Err(ParseArgs([]string{"extra"})), "an extra argument was accepted")
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		begin := time.Now()
		var asleep atomic.Int64 // time that timers do not see
		d.cfg.Cap = 2 * time.Minute
		d.start(t.Context(), func() time.Duration { return time.Since(begin) + time.Duration(asleep.Load()) })

		d.apply("tcp.sack", "0") // deadline of one minute
		<-time.After(59 * time.Second)
		d.expect(sack, "0")
		a := d.call(request{Op: opExtend, Deadline: 30 * time.Second})
		must.Need(t, a.Error == nil, "%v", a.Error)
		<-time.After(29 * time.Second)
		synctest.Wait()
		d.expect(sack, "0")
		<-time.After(2 * time.Second)
		synctest.Wait()
		d.expect(sack, "1") // undone without a request
		for _, r := range []request{{Op: opVerify}, {Op: opExtend, Deadline: time.Second}, {Op: opApply, Deadline: time.Second}} {
			a := d.call(r)
			must.True(t, errors.Is(a.err(), ErrExpired), "%s after the deadline = %v, want ErrExpired", r.Op, a.err())
		}
		u := d.call(request{Op: opUndo})
		must.True(t, errors.Is(u.err(), ErrExpired) && len(u.Changes) == 1 && u.Changes[0].State == model.ChangeUndone, "Undo after the deadline = %+v", u)

		a = d.apply("tcp.sack", "0")
		must.Need(t, a.Error == nil, "Apply after the acknowledged end = %v", a.Error)
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

// TestFailedUndoOfTheDeadlineIsTriedAgain: if the agent sends no request, a failed undo is
// retried and reported once.
func TestFailedUndoOfTheDeadlineIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		var busy atomic.Bool
		d.memory.Refuse = func(p knob.Place, _ string) error {
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
		must.True(t, errors.Is(u.err(), ErrExpired) && len(u.Changes) == 2 && u.Changes[0].State == model.ChangeUndone &&
			u.Changes[1].State == model.ChangeUndone, "Undo = %+v, want each knob once, undone", u)
		must.OK(t, d.stop())
	})
}

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
