package watchdog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

// busyBackend is a driver that refuses the old value while a file exists.
type busyBackend struct {
	fileBackend
	path string
}

func (b busyBackend) Write(ctx context.Context, raw string) error {
	if exists(b.path) && raw == "1" {
		return syscall.EBUSY
	}
	return b.fileBackend.Write(ctx, raw)
}

// busyHost is a host below procSys where tcp.sack has such a driver.
func busyHost(procSys, path string) hostknob.Host {
	return hostknob.Host{ProcSys: procSys, Backend: func(p hostknob.Place) (hostknob.Backend, error) {
		f := fileBackend(filepath.Join(procSys, strings.ReplaceAll(p.Native, ".", "/")))
		if p == sack {
			return busyBackend{f, path}, nil
		}
		return f, nil
	}}
}

// busyUntil has the driver of tcp.sack refuse all writes with why until free is called, and
// counts the attempts.
func (d *desk) busyUntil(why error) (free func(), asked *atomic.Int64) {
	var is atomic.Bool
	asked = new(atomic.Int64)
	is.Store(true)
	d.memory.Refuse = func(p hostknob.Place, _ string) error {
		if p != sack || !is.Load() {
			return nil
		}
		asked.Add(1)
		return why
	}
	return func() { is.Store(false) }, asked
}

// fake is the clock of a synctest bubble.
func fake() func() time.Duration {
	begin := time.Now()
	return func() time.Duration { return time.Since(begin) }
}

// TestBusyDriverAtTheEnd: a driver that is busy for 3 s when the agent is gone or the
// watchdog gets SIGTERM delays no other setting, and its own is undone as soon as possible.
func TestBusyDriverAtTheEnd(t *testing.T) {
	for name, why := range map[string]error{"busy": syscall.EBUSY, "no rights": fs.ErrPermission} {
		for ended, end := range map[string]func(d *desk, cancel func()){
			"end of input": func(d *desk, _ func()) { _ = d.ask.Close() },
			"SIGTERM":      func(_ *desk, cancel func()) { cancel() },
		} {
			t.Run(name+" at "+ended, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDesk(t)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					d.start(ctx, fake())
					d.apply("tcp.sack", "0", "tcp.timestamps", "0")
					free, asked := d.busyUntil(why)
					end(d, cancel)
					<-time.After(3 * time.Second)
					synctest.Wait()
					d.expect(place("net.ipv4.tcp_timestamps"), "1")
					d.expect(sack, "0")
					n := asked.Load() // at 0, 0.1, 0.3, 0.7, 1.5 s
					must.True(t, n >= 4 && n <= 6, "asked %d times in 3 s", n)
					_, err := d.state().Retry()
					held, ok := errors.AsType[*journal.HeldError](err)
					must.True(t, ok && strings.Contains(held.Who, "process "), "others are told: %v", err)
					if j, err := d.open(); err != nil { // between two tries
						t.Errorf("others are kept from it: %v", err)
					} else if err := j.Close(); err != nil {
						t.Error(err)
					}
					free()
					<-time.After(3 * time.Second)
					synctest.Wait()
					d.expect(sack, "1")
					must.OK(t, <-d.done, "the watchdog ends with")
					cancel()
					_ = d.ask.Close()
				})
			})
		}
	}
}

// TestBusyDriverIsHandedOver: the watchdog retries at least every 30 s and gives up after
// half a day, naming the process that will continue.
func TestBusyDriverIsHandedOver(t *testing.T) {
	for name, next := range map[string]string{"": "linerate undo, or the next start of linerate here", "atboot": "the job for the next start of the machine"} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			var said bytes.Buffer
			d.cfg.Talk = &said
			d.cfg.Dir = dir
			d.start(t.Context(), fake())
			d.apply("tcp.sack", "0")
			_, asked := d.busyUntil(syscall.EBUSY)
			if name != "" { // left there by an installed job
				must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			}
			begin := time.Now()
			err := d.stop()
			took := time.Since(begin)
			must.True(t, took >= persistence && took <= persistence+2*longestRetry, "it tried for %s", took)
			n := asked.Load()
			must.True(t, n >= int64(persistence/longestRetry) && n <= int64(persistence/longestRetry)+20, "it tried %d times", n)
			must.True(t, errors.Is(err, syscall.EBUSY) && strings.Contains(err.Error(), "gave up after ") &&
				strings.Contains(err.Error(), next) && strings.HasPrefix(said.String(), UndoMark+"gave up"),
				"it ends with %v\nsaid %s", err, said.String())
			d.memory.Refuse = nil
			changes, err := Recover(t.Context(), d.cfg)
			must.True(t, len(changes) == 1 && changes[0].State == model.ChangeUndone && err == nil, "Recover = %+v, %v", changes, err)
			d.expect(sack, "1")
		})
	}
}

// TestBusyDriverOfALiveAgent: Undo waits a moment for a busy driver and then retries while
// the agent lives. Until it succeeds, no new change is applied.
func TestBusyDriverOfALiveAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.start(t.Context(), fake())
		d.apply("tcp.sack", "0", "tcp.timestamps", "0")
		free, _ := d.busyUntil(syscall.EBUSY)
		time.AfterFunc(3*time.Second, free)
		if u := d.call(request{Op: opUndo}); u.Error != nil || len(u.Changes) != 2 ||
			slices.ContainsFunc(u.Changes, func(c model.Change) bool { return c.State != model.ChangeUndone }) {
			t.Errorf("Undo of a driver that is busy for 3 s = %+v", u)
		}
		d.apply("tcp.sack", "0")
		free, _ = d.busyUntil(syscall.EBUSY)
		u := d.call(request{Op: opUndo})
		must.True(t, u.Error != nil && u.Changes[0].State == model.ChangeFailed, "Undo = %+v", u)
		if a := d.apply("tcp.timestamps", "0"); a.Error == nil || !strings.Contains(a.Error.Text, "1 of 1 settings not undone: write tcp.sack") {
			t.Errorf("Apply over an unfinished change = %+v", a)
		}
		free()
		<-time.After(longestRetry + look)
		synctest.Wait()
		d.expect(sack, "1")
		a := d.apply("tcp.timestamps", "0")
		must.True(t, a.Error == nil, "Apply = %v", a.Error)
		must.OK(t, d.stop())
	})
}

// TestUndoOutlastsAnother: if another process holds the journal when the agent goes, the
// watchdog continues once that process ends, since its undo may have failed.
func TestUndoOutlastsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.start(t.Context(), fake())
		d.apply("tcp.sack", "0")
		free, _ := d.busyUntil(syscall.EBUSY)
		d.call(request{Op: opUndo})
		other := must.Get(d.open())(t)
		_ = d.ask.Close()
		<-time.After(time.Minute)
		free()
		must.OK(t, other.Close())
		must.OK(t, <-d.done)
		d.expect(sack, "1")
	})
}

// TestConfirmationOfHalf: a late confirmation does not keep a change that is half undone.
func TestConfirmationOfHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.start(t.Context(), fake())
		a := d.apply("tcp.sack", "0", "tcp.timestamps", "0")
		free, _ := d.busyUntil(syscall.EBUSY)
		_ = d.ask.Close()
		<-time.After(time.Second)
		must.Do(t, d.state().Confirm(a.Transaction))
		<-time.After(time.Minute)
		free()
		must.OK(t, <-d.done)
		d.expect(sack, "1")
	})
}

// TestRecoverWaitsForABusyDriver: but not if it has no permission.
func TestRecoverWaitsForABusyDriver(t *testing.T) {
	for name, c := range map[string]struct {
		why    error
		within time.Duration
		state  model.ChangeState
	}{
		"busy for 3 s":    {syscall.EBUSY, 3 * time.Second, model.ChangeUndone},
		"busy for 1 min":  {syscall.EBUSY, time.Minute, model.ChangeFailed},
		"no rights":       {fs.ErrPermission, 3 * time.Second, model.ChangeFailed},
		"of another kind": {errors.ErrUnsupported, 3 * time.Second, model.ChangeFailed},
	} {
		for which, f := range map[string]func(context.Context, Config) ([]model.Change, error){"Recover": Recover, "Revert": Revert} {
			t.Run(which+" "+name, func(t *testing.T) {
				d := newDesk(t)
				j := must.Get(d.open())(t)
				err := j.Append(journal.Record{Kind: journal.KindIntent, Transaction: "t", Number: 1, Intent: &journal.Intent{
					Host: model.Near, Knob: "tcp.sack", Place: sack, Old: "1", New: "0", Origin: journal.Here(),
				}})
				if which == "Revert" {
					err = errors.Join(err, j.Append(journal.Record{Kind: journal.KindConfirmed, Transaction: "t"}))
				}
				must.Do(t, errors.Join(err, j.Close()))
				synctest.Test(t, func(t *testing.T) {
					d.memory.Set(sack, "0")
					free, _ := d.busyUntil(c.why)
					time.AfterFunc(c.within, free)
					changes, err := f(t.Context(), d.cfg)
					must.True(t, len(changes) == 1 && changes[0].State == c.state && (err == nil) == (c.state == model.ChangeUndone), "%+v, %v", changes, err)
					must.True(t, err == nil || errors.Is(err, c.why), "it fails with %v", err)
					<-time.After(time.Minute)
				})
			})
		}
	}
}

// busyDog has a watchdog process apply b's changes, and then makes the driver busy.
func busyDog(t *testing.T) (b bench, c *Client, dir, busy string) {
	t.Helper()
	b, dir, busy = fakeBench(t), t.TempDir(), filepath.Join(t.TempDir(), "busy")
	b.host = busyHost(b.host.ProcSys, busy)
	t.Setenv(busyVar, busy)
	c = start(t, b, dir)
	must.Get(c.Apply(t.Context(), b.changes, time.Minute))(t)
	setFile(t, busy, "")
	return b, c, dir, busy
}

// heldUndo waits until the journal reports a running undo, and returns that error.
func heldUndo(t *testing.T, dir string) *journal.HeldError {
	t.Helper()
	var held *journal.HeldError
	must.Until(t, "word of an undo that goes on", func() bool {
		done, err := journal.Dir{Path: dir}.Retry()
		if err == nil {
			done()
		}
		return errors.As(err, &held)
	})
	return held
}

// TestNoSignalEndsAnUndo: SIGTERM starts the undo, and further ones do not end it. Meanwhile
// other processes may try, but do not start a second lasting undo.
func TestNoSignalEndsAnUndo(t *testing.T) {
	b, c, dir, busy := busyDog(t)
	before := map[model.KnobID]string{"tcp.sack": "0", "tcp.recv_buffer_max": "4096\t131072\t33554432", "tcp.send_buffer_max": "4096\t16384\t4194304"}
	who := "process " + strconv.Itoa(c.process.pid)
	for range 3 {
		must.Do(t, syscall.Kill(c.process.pid, syscall.SIGTERM))
		held := heldUndo(t, dir)
		must.True(t, strings.Contains(held.Who, who), "%v", held)
	}
	changes, err := Recover(t.Context(), Config{Dir: dir, Host: b.host, Command: []string{"/none"}, Patience: time.Minute})
	must.True(t, stuck(err) != nil && strings.Contains(err.Error(), who+", since ") && strings.Contains(err.Error(), "goes on trying"),
		"Recover meanwhile = %+v, %v", changes, err)
	b.expect(t, before, "while the driver is busy")
	must.Do(t, os.Remove(busy))
	<-c.gone
	before["tcp.sack"] = "1"
	b.expect(t, before, "after SIGTERM")
	must.OK(t, c.Close(), "Close")
}

// TestRecoverHandsOver: a process of its own continues what Recover cannot finish quickly.
func TestRecoverHandsOver(t *testing.T) {
	b, c, dir, busy := busyDog(t)
	must.Do(t, c.process.kill()) // its agent, this test, recovers
	<-c.gone
	must.Need(t, c.leftErr != nil && strings.Contains(c.leftErr.Error(), "goes on trying"), "Recover = %+v, %v", c.left, c.leftErr)
	held := heldUndo(t, dir)
	var pid int
	must.Get(fmt.Sscanf(held.Who, "process %d", &pid))(t)
	its := must.Get(unix.PidfdOpen(pid, 0))(t)
	must.Do(t, os.Remove(busy))
	changes, err := Recover(t.Context(), Config{Dir: dir, Host: b.host, Patience: time.Minute})
	must.OK(t, err, "Recover behind %v = %+v", held, changes)
	must.Equal(t, b.values(t)["tcp.sack"], "1", "tcp.sack")
	ended := must.Get(unix.Poll([]unix.PollFd{{Fd: int32(its), Events: unix.POLLIN}}, 60_000))(t) // it would write to its journal again
	must.True(t, ended == 1 && unix.Close(its) == nil, "process %d goes on", pid)
}
