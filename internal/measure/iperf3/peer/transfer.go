package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

// open opens all streams, in order, and waits until the server has accepted them.
func (t *clientTest) open(ctx context.Context) error {
	all := iperf3.Streams(t.params.Direction, int(t.params.Parallel))
	for _, d := range directions(t.params.Direction).Parts() {
		l := &way{direction: d, role: model.Receiver, spec: t.flow}
		l.spec.Direction = d
		sender := iperf3.Server
		if d == model.To {
			l.role, sender = model.Sender, iperf3.Client
		}
		l.streams = part(all, sender)
		if err := t.openWay(ctx, l); err != nil {
			if errors.Is(err, errGreetingLost) && t.begunEarly(d) {
				return errOneWay
			}
			return fmt.Errorf("open streams %s: %w", d, err)
		}
		t.ways = append(t.ways, l)
	}
	for _, due := range []iperf3.State{iperf3.TestStart, iperf3.TestRunning} {
		s, err := t.ctl.next()
		if err != nil {
			return fmt.Errorf("wait for the server to start: %w", err)
		}
		if s != due {
			return t.refusal(s, due)
		}
	}
	return nil
}

func (t *clientTest) openWay(ctx context.Context, l *way) error {
	// This end uses the length that it sent to the server.
	l.spec.Block = units.Bytes(t.params.Length)
	if t.params.Protocol == iperf3.UDP {
		return t.openUDP(ctx, l)
	}
	env := engine.Env{Host: model.Near, LinkRate: t.LinkRate}
	return l.openTCP(ctx, t.Bulk, env, t.params.BitsPerSecond, t.dial)
}

// dial opens one TCP stream and sends the cookie.
func (t *clientTest) dial(ctx context.Context, o engine.SocketOptions) (*net.TCPConn, []string, error) {
	o.Egress = t.Egress
	// The address that answered, since a name may have several.
	c, err := sockio.Dial(ctx, net.Dialer{Timeout: t.limits.wait()}, "tcp", t.ctl.conn.RemoteAddr().String(), o)
	if err != nil {
		return nil, nil, err
	}
	conn, ok := c.(*net.TCPConn)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("dialled a %T", c), c.Close())
	}
	warnings, err := sockio.Apply(conn, o)
	if err == nil {
		err = control{conn, t.limits.wait()}.say(t.cookie[:])
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, warnings, conn.SetDeadline(time.Time{})
}

// move runs the ways until the test is over, ends it, and waits for the server to react.
func (t *clientTest) move(ctx context.Context, emit func([]model.Sample), next <-chan heard) error {
	emits := onlyOnce(emit, len(t.ways))
	for i, l := range t.ways {
		l.start(ctx, emits[i])
		if l.role == model.Sender && t.flow.Omit > 0 {
			defer time.AfterFunc(t.flow.Omit, l.rebase).Stop()
		}
	}
	failed := t.watch(ctx, next)
	reading, stop := context.WithCancel(ctx)
	wait := t.discardAll(reading.Done())
	defer wait()
	defer stop()
	for _, l := range t.ways {
		l.stop()
	}
	if failed != nil {
		return failed
	}
	var queues panics.Group
	for _, l := range t.ways {
		if l.role == model.Sender {
			queues.Go(func() { l.drain(ctx, drainLimit) })
		}
	}
	queues.Wait()
	if t.params.Direction != iperf3.Reverse {
		begun := time.Now()
		pause(ctx.Done(), readingTime)
		if t.settle != nil {
			t.settle()
		}
		t.idle = time.Since(begun)
	}
	if err := t.ctl.state(iperf3.TestEnd); err != nil {
		return err
	}
	s, err := t.ctl.hurry(next)
	if err != nil {
		return fmt.Errorf("wait for the server to end: %w", err)
	}
	if s != iperf3.ExchangeResults {
		return t.refusal(s, iperf3.ExchangeResults)
	}
	// The server has ended its streams: the data in flight arrives now.
	defer time.AfterFunc(lateLimit, stop).Stop()
	wait()
	return nil
}

// discardAll reads on at every finished receiver, until stop is closed.
func (t *clientTest) discardAll(stop <-chan struct{}) (wait func()) {
	var all panics.Group
	for _, l := range t.ways {
		if l.role != model.Receiver {
			continue
		}
		all.Go(func() {
			select {
			case <-l.over:
				l.discard(stop)()
			case <-stop:
			}
		})
	}
	return all.Wait
}

// watch waits until the test is over as planned, and returns nil, or the error that ends it
// before.
func (t *clientTest) watch(ctx context.Context, next <-chan heard) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	// The clock ends a sender; a receiver's window closes by itself. The clock starts with the
	// last sender's own.
	for _, l := range t.ways {
		if l.role == model.Sender {
			<-l.test.Measured()
		}
	}
	timed := time.NewTimer(t.flow.Omit + t.flow.Duration)
	defer timed.Stop()
	clock := timed.C
	open := make([]bool, len(t.ways))
	for i := range open {
		open[i] = true
	}
	for left := len(open); left > 0; {
		done := func(i int) {
			if open[i] {
				open[i] = false
				left--
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case h := <-next:
			return t.interrupted(h)
		case <-clock:
			clock = nil
			if t.flow.Bytes != 0 {
				continue
			}
			for i, l := range t.ways {
				if l.role == model.Sender && l.udp == nil {
					done(i)
				}
			}
		case <-ticker.C:
		}
		for i, l := range t.ways {
			if !open[i] {
				continue
			}
			switch {
			case closed(l.over) && l.role == model.Receiver && t.oneWayOnly(l):
				return errOneWay
			case closed(l.over) && (l.err != nil || l.role == model.Sender && l.udp == nil):
				return t.broken(l, next)
			case closed(l.over), t.flow.Bytes != 0 && l.complete():
				done(i)
			}
		}
	}
	return nil
}

// broken returns the error for a way that ended by itself. Its cause may still arrive on the
// control connection.
func (t *clientTest) broken(l *way, next <-chan heard) error {
	select {
	case h := <-next:
		return t.interrupted(h)
	case <-time.After(time.Second):
	}
	if l.role == model.Receiver && t.oneWayOnly(l) {
		return errOneWay
	}
	if l.err != nil {
		return l.err
	}
	return fmt.Errorf("%s: the streams ended before the test: %v", l.direction, l.report.Warnings)
}

// interrupted returns the error for whatever the server sends while data flows.
func (t *clientTest) interrupted(h heard) error {
	if h.err != nil {
		return fmt.Errorf("the server left during the test: %w", h.err)
	}
	return t.refusal(h.state, iperf3.TestRunning)
}
