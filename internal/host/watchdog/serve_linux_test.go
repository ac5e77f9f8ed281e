package watchdog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/durable/durabletest"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/linkid"
	"linerate/internal/must"
)

// desk is a watchdog in this process, over a host in memory, with hand-written requests.
type desk struct {
	t       *testing.T
	disk    durabletest.Disk
	memory  *knobtest.Memory
	cfg     Config
	ask     io.WriteCloser
	replies chan reply
	done    chan error
	id      int
}

func place(native string) hostknob.Place {
	return hostknob.Place{Mechanism: knob.Sysctl, Native: native}
}

var (
	rmem = place("net.ipv4.tcp_rmem")
	sack = place("net.ipv4.tcp_sack")
)

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, memory: &knobtest.Memory{}}
	d.memory.Set(rmem, "4096\t131072\t33554432")
	d.memory.Set(sack, "1")
	d.memory.Set(place("net.ipv4.tcp_timestamps"), "1")
	d.cfg = Config{Dir: stateDir, Host: hostknob.Host{Backend: d.memory.Open, Index: catalogue()}, sys: quiet(&d.disk)}
	return d
}

// quiet is a system of which only the clocks are real.
func quiet(disk *durabletest.Disk) *system {
	s := machineItself()
	s.files, s.spare = disk.Process(nil), &noSpare{}
	s.kernel = func() (kernelLog, error) { return nil, fs.ErrPermission }
	s.links = func() ([]linkid.ID, error) { return nil, nil }
	s.around = nil // the settings are in memory
	return s
}

// state is the desk's state directory.
func (d *desk) state() journal.Dir { return journal.Dir{Path: stateDir, FS: d.cfg.sys.files} }

// open opens the desk's journal as another process.
func (d *desk) open() (*journal.Journal, error) {
	return journal.Dir{Path: stateDir, FS: d.disk.Process(nil)}.Open("")
}

// start serves until the test ends or stop is called, and returns the hello.
func (d *desk) start(ctx context.Context, clock func() time.Duration) reply {
	d.t.Helper()
	requests, ask := io.Pipe()
	answers, out := io.Pipe()
	d.cfg.sys.clock = clock
	replies, done, cfg := make(chan reply), make(chan error, 1), d.cfg
	d.ask, d.replies, d.done = ask, replies, done
	go func() {
		done <- serve(ctx, requests, out, cfg)
		_ = errors.Join(out.Close(), requests.Close()) // as the kernel does when the process ends
	}()
	go func() {
		_ = readLines(answers, func(r reply) bool { replies <- r; return true })
		close(replies)
	}()
	return <-d.replies
}

func (d *desk) stop() error {
	_ = d.ask.Close()
	return <-d.done
}

func (d *desk) call(r request) reply {
	d.t.Helper()
	d.id++
	r.ID = d.id
	must.Do(d.t, writeLine(d.ask, r))
	a, ok := <-d.replies
	must.Need(d.t, ok && a.ID == r.ID, "reply %+v to request %d, open %v", a, r.ID, ok)
	return a
}

func (d *desk) apply(knobsAndValues ...string) reply {
	d.t.Helper()
	r := request{Op: opApply, Deadline: time.Minute}
	for pair := range slices.Chunk(knobsAndValues, 2) {
		r.Changes = append(r.Changes, model.Assignment{Host: model.Near, Knob: model.KnobID(pair[0]), Value: pair[1]})
	}
	return d.call(r)
}

func (d *desk) expect(p hostknob.Place, want string) {
	d.t.Helper()
	must.Equal(d.t, must.Get(must.Get(d.memory.Open(p))(d.t).Read(d.t.Context()))(d.t), want, "%s holds", p)
}

func TestApplyVerifyUndo(t *testing.T) {
	d := newDesk(t)
	hello := d.start(t.Context(), sinceBoot)
	must.Need(t, hello.Ready && hello.Error == nil, "hello = %+v", hello)
	a := d.apply("tcp.sack", "off", "tcp.recv_buffer_max", "64KiB", "tcp.timestamps", "1")
	made := lists.Each(a.Changes, func(c model.Change) string {
		return fmt.Sprintf("%s %s: %s -> %s, %s%s", c.Host, c.Native, knob.SameText(c.Old), c.New, c.State, c.Detail)
	})
	want := []string{ // decreases come last; unchanged values are written too
		"near net.ipv4.tcp_sack: 1 -> 0, applied",
		"near net.ipv4.tcp_timestamps: 1 -> 1, applied",
		"near net.ipv4.tcp_rmem: 4096 131072 33554432 -> 4096 65536 65536, applied",
	}
	must.True(t, slices.Equal(made, want) && a.Error == nil, "Apply = %q, %+v, want %q", made, a.Error, want)
	v := d.call(request{Op: opVerify})
	must.True(t, len(v.Mismatches) == 0 && v.Error == nil, "Verify = %+v", v)
	d.memory.Set(sack, "5")
	v = d.call(request{Op: opVerify})
	must.True(t, len(v.Mismatches) == 1 && v.Mismatches[0].Got == "5" && v.Mismatches[0].Want == "0", "Verify after a foreign change = %+v", v)
	u := d.call(request{Op: opUndo})
	must.True(t, len(u.Changes) == 3 && u.Error == nil && u.Changes[0].Knob == "tcp.recv_buffer_max" &&
		u.Changes[0].State == model.ChangeUndone && u.Changes[1].Knob == "tcp.timestamps" &&
		u.Changes[1].State == model.ChangeUndone && u.Changes[2].Knob == "tcp.sack" && u.Changes[2].State == model.ChangeForeign,
		"Undo = %+v, want the newest first, undone, then the foreign one", u)
	d.expect(rmem, "4096\t131072\t33554432") // the original text, with tabs
	d.expect(sack, "5")
	u = d.call(request{Op: opUndo})
	must.True(t, len(u.Changes) == 0 && u.Error == nil, "second Undo = %+v", u)
	for _, o := range []op{opVerify, opExtend} {
		a := d.call(request{Op: o, Deadline: time.Second})
		must.True(t, errors.Is(a.err(), ErrIdle), "%s with nothing applied = %v, want ErrIdle", o, a.err())
	}
	must.OK(t, d.stop())
}

// TestApplyWhole: three settings together force the mode of a link without carrier, and none
// of them is valid alone. An incomplete mode is refused as a whole.
func TestApplyWhole(t *testing.T) {
	d := newDesk(t)
	mode := hostknob.Place{Mechanism: knob.Ethtool, Native: "linkmodes.mode", Target: "wd9"}
	const old = "autoneg=on advertise=10baseT/Half (supported=10baseT/Half)"
	d.memory.Set(mode, old)
	d.cfg.Host.Interface = "wd9"
	d.memory.Wrong = func(p hostknob.Place, raw string) error {
		whole := strings.Contains(raw, "speed=") && strings.Contains(raw, "duplex=")
		if p == mode && strings.Contains(raw, "off") && !whole {
			return errors.New("it needs both")
		}
		return nil
	}
	d.memory.Refuse = d.memory.Wrong
	d.start(t.Context(), sinceBoot)
	a := d.apply("nic.media.autoneg", "off", "nic.media.speed", "10")
	must.True(t, a.Error != nil && strings.Contains(a.Error.Text, "it needs both"), "half a mode: %+v", a)
	d.expect(mode, old)
	if a := d.apply("nic.media.autoneg", "off", "nic.media.speed", "10", "nic.media.duplex", "half"); a.Error != nil || len(a.Changes) != 3 {
		t.Errorf("Apply = %+v, %v", a, a.err())
	}
	d.expect(mode, "autoneg=off speed=10 duplex=half")
	u := d.call(request{Op: opUndo})
	must.True(t, u.Error == nil, "Undo = %v", u.err())
	d.expect(mode, old)
}

// TestApplyWhileApplied: later levels keep the first baseline and do not depend on the level
// before.
func TestApplyWhileApplied(t *testing.T) {
	d := newDesk(t)
	d.start(t.Context(), sinceBoot)
	d.apply("tcp.recv_buffer_max", "64KiB")
	d.expect(rmem, "4096 65536 65536")
	a := d.apply("tcp.recv_buffer_max", "1MiB", "tcp.sack", "0")
	d.expect(rmem, "4096 131072 1048576")
	must.Equal(t, a.Changes[0].Old, "4096\t131072\t33554432", "Old")
	u := d.call(request{Op: opUndo})
	must.True(t, len(u.Changes) == 2 && u.Error == nil, "Undo = %+v, want one change a knob", u)
	d.expect(rmem, "4096\t131072\t33554432")
	d.expect(sack, "1")
	must.OK(t, d.stop())
}

func TestApplyIsAllOrNothing(t *testing.T) {
	for name, c := range map[string]struct {
		sabotage func(d *desk)
		apply    []string
		want     string
		cause    error
	}{
		"write refused": {func(d *desk) {
			d.memory.Refuse = func(p hostknob.Place, raw string) error {
				if p == rmem && raw != "4096\t131072\t33554432" {
					return fs.ErrPermission
				}
				return nil
			}
		}, []string{"tcp.sack", "0", "tcp.recv_buffer_max", "1MiB"}, "write tcp.recv_buffer_max", fs.ErrPermission},
		"bad value":     {func(*desk) {}, []string{"tcp.sack", "0", "tcp.recv_buffer_max", "1"}, "want a size", nil},
		"unknown knob":  {func(*desk) {}, []string{"tcp.sack", "0", "tcp.sakc", "1"}, "did you mean tcp.sack", nil},
		"twice":         {func(*desk) {}, []string{"tcp.sack", "0", "tcp.sack", "1"}, "set twice", nil},
		"absent":        {func(*desk) {}, []string{"tcp.sack", "0", "tcp.mtu_probing", "1"}, "read tcp.mtu_probing", fs.ErrNotExist},
		"no interface":  {func(*desk) {}, []string{"tcp.sack", "0", "link.mtu", "9000"}, "interface", errors.ErrUnsupported},
		"knob of flows": {func(*desk) {}, []string{"tcp.sack", "0", "window", "64K"}, "not to a host", nil},
		"foreign": {func(d *desk) {
			d.apply("tcp.timestamps", "0")
			d.memory.Set(place("net.ipv4.tcp_timestamps"), "2")
		}, []string{"tcp.sack", "0", "tcp.timestamps", "1"}, "linerate wrote", ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.start(t.Context(), sinceBoot)
			c.sabotage(d)
			err := d.apply(c.apply...).err()
			must.True(t, err != nil && strings.Contains(err.Error(), c.want) && (c.cause == nil || errors.Is(err, c.cause)),
				"Apply = %v, want it to say %q and wrap %v", err, c.want, c.cause)
			d.expect(sack, "1")
			d.expect(rmem, "4096\t131072\t33554432")
			a := d.call(request{Op: opVerify})
			must.True(t, errors.Is(a.err(), ErrIdle), "after a failed Apply, Verify = %v, want ErrIdle", a.err())
			must.OK(t, d.stop())
			records, _, err := d.state().Read()
			open := journal.OpenIntents(records)
			must.True(t, len(open) == 0 && err == nil, "open %v, %v", open, err)
		})
	}
}

// TestVanishedKnobIsReported: the setting of an interface that is gone is reported; the rest
// is undone.
func TestVanishedKnobIsReported(t *testing.T) {
	d := newDesk(t)
	d.start(t.Context(), sinceBoot)
	d.apply("tcp.sack", "0", "tcp.recv_buffer_max", "1MiB")
	d.memory.Remove(rmem)
	u := d.call(request{Op: opUndo})
	must.True(t, len(u.Changes) == 2 && u.Changes[0].State == model.ChangeFailed && u.Changes[0].Detail != "" &&
		u.Changes[1].State == model.ChangeUndone, "Undo = %+v", u)
	must.OK(t, d.stop(), "a knob that is gone is not left to undo")
}

func TestEndUndoes(t *testing.T) {
	for name, end := range map[string]func(d *desk, cancel func()){
		"end of input":   func(d *desk, _ func()) { _ = d.ask.Close() },
		"context":        func(_ *desk, cancel func()) { cancel() },
		"nonsense":       func(d *desk, _ func()) { _, _ = io.WriteString(d.ask, "nonsense\n") },
		"endless line":   func(d *desk, _ func()) { _, _ = d.ask.Write(make([]byte, maxLine+1)) },
		"out of bounds":  func(d *desk, _ func()) { _ = writeLine(d.ask, request{ID: -1}) },
		"never listened": func(d *desk, _ func()) { flood(d) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d.start(ctx, sinceBoot)
			d.apply("tcp.sack", "0")
			end(d, cancel)
			<-d.done // with or without an error it undoes
			d.expect(sack, "1")
		})
	}
}

// flood sends requests without reading replies until the watchdog stops.
func flood(d *desk) {
	for n := range 10 * pending {
		if err := writeLine(d.ask, request{ID: n + 100, Op: opVerify}); err != nil {
			return
		}
		select {
		case err := <-d.done:
			d.done <- err
			return
		default:
		}
	}
}
