package pingpong

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/pingpong/link"
)

// hole is a path between the two ends that swallows what goes to the far end
// beyond so many bytes of a connection. A deaf one swallows the end of the
// connection too.
func (w *wire) hole(t *testing.T, beyond int64, deaf bool) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	target := w.dial
	w.dial = l.Addr().String()
	over := make(chan struct{})
	var relays sync.WaitGroup
	relays.Go(func() {
		for {
			near, err := l.AcceptTCP()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(context.Background(), "tcp", target)
			if err != nil {
				near.Close()
				return
			}
			relays.Go(func() {
				_, _ = io.Copy(near, far)
				near.Close()
			})
			relays.Go(func() {
				_, err := io.CopyN(far, near, beyond)
				_, _ = io.Copy(io.Discard, near)
				if deaf && err == nil {
					<-over
				}
				far.Close()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		close(over)
		relays.Wait()
	})
}

// TestStalledSizes lets the path swallow large messages: both ends get over it,
// and the sweep goes on.
func TestStalledSizes(t *testing.T) {
	for name, open := range map[string]opener{
		"system":    link.New,
		"deaf path": link.New,
		"poller":    func(c *net.TCPConn, _ bool) (*link.Link, error) { return link.NewPoller(c), nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			w.hole(t, 4<<20, name == "deaf path")
			e := quick()
			e.open, e.share = open, 5*time.Millisecond
			near, far := prepare(t, e, w, sweepOf(model.To, model.Sweep{Fresh: true}, 1, 8<<20, 2, 8<<20, 8<<20, 3))
			conduct(t, near, far)
			checkStalls(t, near.report.Points, "1 2! 3 4! 5! 6")
			if len(near.report.Warnings)+len(far.report.Warnings) != 0 {
				t.Errorf("warnings %q %q", near.report.Warnings, far.report.Warnings)
			}
		})
	}
}

// checkStalls compares which points, counted from 1, have stalled.
func checkStalls(t *testing.T, points []model.Point, want string) {
	t.Helper()
	var got []string
	for i, p := range points {
		s := string(rune('1' + i))
		if p.Stalled {
			s += "!"
		}
		if p.Stalled != (len(p.Trials) == 0) {
			t.Errorf("point %+v", p)
		}
		got = append(got, s)
	}
	if s := strings.Join(got, " "); s != want {
		t.Errorf("points %q, want %q", s, want)
	}
}

func TestStallsInARowEndTheSweep(t *testing.T) {
	w := newWire(t)
	w.hole(t, 1<<20, false)
	e := quick()
	e.share = 5 * time.Millisecond
	near, far := prepare(t, e, w, sweepOf(model.To, model.Sweep{}, 1, 8<<20, 8<<20, 8<<20, 2))
	conduct(t, near, far)
	checkStalls(t, near.report.Points, "1 2! 3! 4!")
	if w := near.report.Warnings; len(w) != 1 || !strings.Contains(w[0], "1 of 5 sizes were not measured: three sizes in a row stalled") {
		t.Errorf("warnings %q", w)
	}
	if len(far.report.Warnings) != 0 {
		t.Errorf("far end warns %q", far.report.Warnings)
	}
}

// manual returns the near end, which leads, and a far end in the test's hands.
func manual(t *testing.T, e *Engine, f model.Flow) (*side, *peer) {
	t.Helper()
	w := newWire(t)
	test, err := e.Prepare(t.Context(), w.env(model.Near), f)
	if err != nil {
		t.Fatal(err)
	}
	near := &side{Test: test}
	opened, err := w.env(model.Far).Open(t.Context(), 1, engine.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Whoever opens another connection finds nobody.
	if err := w.listener.Close(); err != nil {
		t.Fatal(err)
	}
	far := &peer{link: link.NewPoller(opened.Conns[0]), in: make([]byte, 1<<20), out: make([]byte, 1<<20)}
	t.Cleanup(func() {
		far.link.Close()
		if err := near.Close(); err != nil {
			t.Error(err)
		}
	})
	return near, far
}

// TestPeersThatDoNotFollow: whatever the follower does, the leader ends, soon,
// and says why.
func TestPeersThatDoNotFollow(t *testing.T) {
	for name, c := range map[string]struct {
		mode   string
		answer func(p *peer, b frame) error
	}{
		"silent":       {"", func(*peer, frame) error { return nil }},
		"closing":      {"", func(p *peer, _ frame) error { return p.link.Close() }},
		"other rounds": {"", func(p *peer, b frame) error { b.kind, b.rounds = ready, b.rounds+1; return p.send(b) }},
		"no answer due": {"", func(p *peer, _ frame) error {
			return p.send(frame{kind: end})
		}},
		"garbage": {"", func(p *peer, _ frame) error { return p.link.Send(make([]byte, frameBytes)) }},
		"lying": {model.SweepStream, func(p *peer, b frame) error {
			b.kind = ready
			if err := p.send(b); err != nil {
				return err
			}
			for range b.rounds {
				if err := p.link.Receive(p.in[:b.size]); err != nil {
					return err
				}
			}
			b.kind, b.elapsed = done, int64(time.Hour)
			return p.send(b)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := manual(t, quick(), sweepOf(model.To, model.Sweep{Mode: c.mode}, 1000))
			near.run(t.Context())
			b, err := far.receive()
			if err != nil || b.kind != batch || b.size != 1000 {
				t.Fatalf("%+v, %v", b, err)
			}
			if err := c.answer(far, b); err != nil {
				t.Fatal(err)
			}
			await(t, near.done, "leader")
			if near.err != nil || len(near.report.Points) != 1 || !near.report.Points[0].Stalled {
				t.Errorf("%+v, %v", near.report, near.err)
			}
			lost := strings.Contains(strings.Join(near.report.Warnings, "\n"), "the connection was lost")
			if lost == (name == "silent") {
				t.Errorf("warnings %q", near.report.Warnings)
			}
		})
	}
}

// TestLeadersThatDoNotLead: the follower ends, soon, and says why.
func TestLeadersThatDoNotLead(t *testing.T) {
	for name, c := range map[string]struct {
		lead  func(p *peer) error
		fails bool
		says  string
	}{
		"silent":       {func(*peer) error { return nil }, false, "went away"},
		"closing":      {func(p *peer) error { return p.link.Close() }, false, "went away"},
		"garbage":      {func(p *peer) error { return p.link.Send(make([]byte, frameBytes)) }, true, "out of step"},
		"foreign size": {func(p *peer) error { return p.send(frame{kind: batch, mode: turns, size: 1 << 30, rounds: 1}) }, true, "does not have"},
		"foreign mode": {func(p *peer) error { return p.send(frame{kind: batch, mode: both, size: 1, rounds: 2}) }, true, "does not have"},
		"answers":      {func(p *peer) error { return p.send(frame{kind: ready, mode: turns, size: 1, rounds: 1}) }, true, "ready where"},
		"half a batch": {func(p *peer) error {
			return errors.Join(p.send(frame{kind: batch, mode: turns, size: 1, rounds: 5}), p.link.Send([]byte{1}))
		}, false, "went away"},
	} {
		t.Run(name, func(t *testing.T) {
			e := quick()
			e.bounds.follower, e.bounds.connect, e.bounds.pause = 100*time.Millisecond, 100*time.Millisecond, 0
			near, far := manual(t, e, sweepOf(model.From, model.Sweep{}, 1))
			near.run(t.Context())
			if err := c.lead(far); err != nil {
				t.Fatal(err)
			}
			await(t, near.done, "follower")
			said := strings.Join(near.report.Warnings, "\n")
			if near.err != nil {
				said += near.err.Error()
			}
			if (near.err != nil) != c.fails || !strings.Contains(said, c.says) {
				t.Errorf("error %v, warnings %q", near.err, near.report.Warnings)
			}
		})
	}
}

// long is a sweep that does not end by itself.
func long() model.Flow {
	f := sweepOf(model.To, model.Sweep{}, 1, 2)
	f.Duration = 10 * time.Hour
	return f
}

func TestStop(t *testing.T) {
	e := quick()
	e.share = time.Millisecond
	f := sweepOf(model.To, model.Sweep{}, slices.Repeat([]units.Bytes{1}, maxSizes)...)
	near, far := prepare(t, e, newWire(t), f)
	near.run(t.Context())
	far.run(t.Context())
	awaitPoint(t, near)
	near.Stop()
	near.Stop()
	await(t, near.done, "stopped leader")
	await(t, far.done, "its follower")
	if near.err != nil || !strings.Contains(strings.Join(near.report.Warnings, "\n"), "stopped") {
		t.Errorf("error %v, warnings %q", near.err, near.report.Warnings)
	}
	// The leader said end: the follower does not wait for another connection.
	if far.err != nil || len(far.report.Warnings) != 0 {
		t.Errorf("follower: error %v, warnings %q", far.err, far.report.Warnings)
	}
}

// awaitPoint returns when e has shown a point.
func awaitPoint(t *testing.T, e *side) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	limit := time.After(soon)
	for len(e.taken()) == 0 {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatal("no sample")
		}
	}
}

func TestStopAndCancelEndEitherEnd(t *testing.T) {
	cause := errors.New("user pressed ^C")
	for _, leads := range []bool{true, false} {
		for _, how := range []string{"stop", "cancel"} {
			near, far := prepare(t, quick(), newWire(t), long())
			ctx, cancel := context.WithCancelCause(t.Context())
			victim := far
			if leads {
				victim = near
			}
			victim.run(ctx)
			switch how {
			case "stop":
				victim.Stop()
			case "cancel":
				cancel(cause)
			}
			await(t, victim.done, "ended end")
			cancel(nil)
			said := strings.Join(victim.report.Warnings, "\n")
			if victim.err != nil {
				said += victim.err.Error()
			}
			if want := map[string]string{"stop": "stopped", "cancel": cause.Error()}[how]; !strings.Contains(said, want) {
				t.Errorf("leads %t, %s: %q", leads, how, said)
			}
			await(t, victim.Measured(), "measured")
		}
	}
}

// TestCloseEndsRun: Close waits for Run and leaves no connection.
func TestCloseEndsRun(t *testing.T) {
	f := sweepOf(model.To, model.Sweep{}, slices.Repeat([]units.Bytes{1}, maxSizes)...)
	near, far := prepare(t, quick(), newWire(t), f)
	near.run(t.Context())
	far.run(t.Context())
	awaitPoint(t, near)
	for _, e := range []*side{near, far} {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		await(t, e.done, "closed end")
		await(t, e.Measured(), "measured")
	}
}

func TestRunOnce(t *testing.T) {
	near, far := prepare(t, quick(), newWire(t), sweepOf(model.To, model.Sweep{}, 1))
	conduct(t, near, far)
	if _, err := near.Run(t.Context(), func([]model.Sample) {}); err == nil {
		t.Error("a test ran twice")
	}
}
