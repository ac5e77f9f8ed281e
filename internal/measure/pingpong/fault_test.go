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
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/plane"
	"linerate/internal/must"
)

// hole makes the path drop the bytes to the far end beyond a number of bytes of a connection. A
// deaf hole also drops the end of the connection, both ways.
func hole(t *testing.T, w *enginetest.Wire, beyond int64, deaf bool) {
	t.Helper()
	over := make(chan struct{})
	w.Relay(t, func(near, far *net.TCPConn) {
		var back sync.WaitGroup
		back.Go(func() {
			_, _ = io.Copy(near, far)
			if deaf {
				<-over
			}
			near.Close()
		})
		_, err := io.CopyN(far, near, beyond)
		_, _ = io.Copy(io.Discard, near)
		if deaf && err == nil {
			<-over
		}
		far.Close()
		back.Wait()
	})
	t.Cleanup(func() { close(over) })
}

// swallowed configures e for a path with a hole: at message sizes of large or more the leader
// soon gives up, and so does the follower if it cannot notice that.
func swallowed(e *Engine, large units.Bytes, deaf bool) *Engine {
	leader := e.bounds.leader
	e.quiet = func(size int, bound time.Duration) time.Duration {
		if units.Bytes(size) >= large && (deaf || bound == leader) {
			return 200 * time.Millisecond
		}
		return bound
	}
	e.share = 5 * time.Millisecond
	return e
}

// TestStalledSizes lets the path drop large messages: both ends recover, and the sweep goes on.
func TestStalledSizes(t *testing.T) {
	for name, open := range map[string]opener{
		"system":    plane.New,
		"deaf path": plane.New,
		"poller":    func(c *net.TCPConn, _ bool) (*plane.Link, error) { return plane.NewPoller(c), nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := enginetest.NewWire(t)
			hole(t, w, 4<<20, name == "deaf path")
			e := swallowed(patient(), 8<<20, name == "deaf path")
			e.open = open
			near, far := enginetest.Prepare(t, e, w, sweepOf(model.To, sizes.Params{Fresh: true}, 1, 8<<20, 2, 8<<20, 8<<20, 3))
			conduct(t, near, far)
			checkStalls(t, near.Report.Points, "1 2! 3 4! 5! 6")
			must.Equal(t, len(near.Report.Warnings)+len(far.Report.Warnings), 0, "warnings %q %q", near.Report.Warnings, far.Report.Warnings)
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
		must.Equal(t, p.Stalled, len(p.Trials) == 0, "point %+v", p)
		got = append(got, s)
	}
	must.Equal(t, strings.Join(got, " "), want, "points")
}

func TestStallsInARowEndTheSweep(t *testing.T) {
	w := enginetest.NewWire(t)
	hole(t, w, 1<<20, false)
	near, far := enginetest.Prepare(t, swallowed(patient(), 8<<20, false), w, sweepOf(model.To, sizes.Params{}, 1, 8<<20, 8<<20, 8<<20, 2))
	conduct(t, near, far)
	checkStalls(t, near.Report.Points, "1 2! 3! 4!")
	said := near.Report.Warnings
	must.True(t, len(said) == 1 && strings.Contains(said[0], "not measured: 1 of 5 sizes: three sizes in a row stalled"), "warnings %q", said)
	must.Equal(t, len(far.Report.Warnings), 0, "far end warns %q", far.Report.Warnings)
}

// manual returns the near end, which leads, and a far end that the test controls.
func manual(t *testing.T, e *Engine, f model.Flow) (*enginetest.End, *peer) {
	t.Helper()
	w := enginetest.NewWire(t)
	near := enginetest.NewEnd(t, must.Get(e.Prepare(t.Context(), w.Env(model.Near), f))(t))
	opened := must.Get(w.Env(model.Far).Open(t.Context(), 1, engine.SocketOptions{}))(t)
	// Further connections are refused.
	must.Do(t, w.CloseListener())
	far := &peer{link: plane.NewPoller(opened.Conns[0]), in: make([]byte, 1<<20), out: make([]byte, 1<<20)}
	t.Cleanup(func() { far.link.Close() })
	return near, far
}

// TestPeersThatDoNotFollow: whatever the follower does, the leader soon ends with the reason.
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
		"lying": {sizes.Stream, func(p *peer, b frame) error {
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
			e := patient()
			if name == "silent" {
				e.bounds.leader = 100 * time.Millisecond
			}
			near, far := manual(t, e, sweepOf(model.To, sizes.Params{Mode: c.mode}, 1000))
			near.Start(t.Context())
			b, err := far.receive()
			late := name == "silent" && err != nil // the leader has given up already
			must.Need(t, late || b.kind == batch && b.size == 1000, "%+v, %v", b, err)
			must.Do(t, c.answer(far, b))
			must.Wait(t, "leader", near.Done)
			must.True(t, near.Err == nil && len(near.Report.Points) == 1 && near.Report.Points[0].Stalled, "%+v, %v", near.Report, near.Err)
			lost := strings.Contains(strings.Join(near.Report.Warnings, "\n"), "the connection was lost")
			must.True(t, lost != (name == "silent"), "warnings %q", near.Report.Warnings)
		})
	}
}

// TestLeadersThatDoNotLead: the follower soon ends with the reason.
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
			return p.link.Send(append(frame{kind: batch, mode: turns, size: 1, rounds: 5}.append(nil), 1))
		}, false, "went away"},
	} {
		t.Run(name, func(t *testing.T) {
			e := patient()
			if name == "silent" {
				e.bounds.follower = 100 * time.Millisecond
			}
			e.quiet = func(int, time.Duration) time.Duration { return 100 * time.Millisecond }
			near, far := manual(t, e, sweepOf(model.From, sizes.Params{}, 1))
			near.Start(t.Context())
			must.Do(t, c.lead(far))
			must.Wait(t, "follower", near.Done)
			said := strings.Join(near.Report.Warnings, "\n")
			if near.Err != nil {
				said += near.Err.Error()
			}
			must.True(t, (near.Err != nil) == c.fails && strings.Contains(said, c.says), "error %v, warnings %q", near.Err, near.Report.Warnings)
		})
	}
}

// long returns a sweep that does not end by itself.
func long() model.Flow {
	f := sweepOf(model.To, sizes.Params{}, 1, 2)
	f.Duration = 10 * time.Hour
	return f
}

func TestStop(t *testing.T) {
	e := patient()
	e.share = time.Millisecond
	f := sweepOf(model.To, sizes.Params{}, slices.Repeat([]units.Bytes{1}, maxSizes)...)
	near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
	near.Start(t.Context())
	far.Start(t.Context())
	near.AwaitSample(t, anything)
	near.Stop()
	near.Stop()
	must.Wait(t, "stopped leader", near.Done)
	must.Wait(t, "its follower", far.Done)
	must.True(t, near.Err == nil && strings.Contains(strings.Join(near.Report.Warnings, "\n"), "stopped"), "error %v, warnings %q", near.Err, near.Report.Warnings)
	// The leader sent end: the follower does not wait for another connection.
	must.True(t, far.Err == nil && len(far.Report.Warnings) == 0, "follower: error %v, warnings %q", far.Err, far.Report.Warnings)
}

// anything accepts every sample: a point was shown.
func anything(model.Sample) bool { return true }

func TestStopAndCancelEndEitherEnd(t *testing.T) {
	cause := errors.New("user pressed ^C")
	for _, leads := range []bool{true, false} {
		for _, how := range []string{"stop", "cancel"} {
			e := patient()
			e.bounds.grace = 100 * time.Millisecond
			near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), long())
			ctx, cancel := context.WithCancelCause(t.Context())
			victim := far
			if leads {
				victim = near
			}
			victim.Start(ctx)
			switch how {
			case "stop":
				victim.Stop()
			case "cancel":
				cancel(cause)
			}
			must.Wait(t, "ended end", victim.Done)
			cancel(nil)
			said := strings.Join(victim.Report.Warnings, "\n")
			if victim.Err != nil {
				said += victim.Err.Error()
			}
			must.True(t, strings.Contains(said, map[string]string{"stop": "stopped", "cancel": cause.Error()}[how]), "leads %t, %s: %q", leads, how, said)
			must.Wait(t, "measured", victim.Measured())
		}
	}
}

// TestCloseEndsRun: Close waits for Run and leaves no connection.
func TestCloseEndsRun(t *testing.T) {
	f := sweepOf(model.To, sizes.Params{}, slices.Repeat([]units.Bytes{1}, maxSizes)...)
	e := patient()
	e.bounds.connect = 100 * time.Millisecond // how long the follower waits for another connection
	near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), f)
	near.Start(t.Context())
	far.Start(t.Context())
	near.AwaitSample(t, anything)
	for _, e := range []*enginetest.End{near, far} {
		must.OK(t, e.Close())
		must.Wait(t, "closed end", e.Done)
		must.Wait(t, "measured", e.Measured())
	}
}

func TestRunOnce(t *testing.T) {
	near, far := enginetest.Prepare(t, patient(), enginetest.NewWire(t), sweepOf(model.To, sizes.Params{}, 1))
	conduct(t, near, far)
	must.Fail(t, must.Err(near.Run(t.Context(), func([]model.Sample) {})), "a test ran twice")
}
