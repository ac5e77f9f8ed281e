package netpipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"linerate/internal/measure/engine"
	"linerate/internal/measure/plane"
	"linerate/internal/measure/sockio"
)

// Peer is either end of a test with a real NPtcp: Transmit replaces one with -h, Serve one
// without. It is safe for concurrent use.
type Peer struct {
	bounds bounds
	met    func() // called at the receiver's first message; may be nil
}

// bounds are the timeouts of a test. NetPIPE itself has none.
type bounds struct {
	quiet   time.Duration // without progress
	first   time.Duration // for a transmitter's first message, and while others wait
	trial   time.Duration // of one trial, or of the opening exchanges
	whole   time.Duration // of a transmitter's test with calibrated repeats and three trials
	connect time.Duration // for a receiver to listen again after a reset
	retry   time.Duration // between two such attempts
	ending  time.Duration // for a connection to close
}

// New returns a peer. It gives up after 15 s without progress, 2 s if the other end has never
// sent a message, or 5 min in one trial, which usually takes 0.1 s. A transmitter that
// calibrates its repeats ends after 40 min, with Final 200 min: a path with a round trip of 1.8
// s needs three quarters of that, others less than half.
func New() *Peer {
	return &Peer{bounds: bounds{
		quiet: 15 * time.Second, first: 2 * time.Second, trial: 5 * time.Minute, whole: 40 * time.Minute, connect: 10 * time.Second,
		retry: 5 * time.Millisecond, ending: 2 * time.Second,
	}}
}

// ErrEnded reports that the other end ended the test before this end's schedule was complete:
// it was started with another -u, or by its clock a message took about 1 s.
var ErrEnded = errors.New("the other end ended the test first")

// wholeOf returns bounds.whole for a test with s, which grows with the minimum number of
// messages per size.
func (b bounds) wholeOf(s Settings) time.Duration {
	return b.whole * time.Duration(max(1, s.Trials()*s.leastRepeats()/usualLeast))
}

// usualLeast is three trials of three messages.
const usualLeast = 9

// errWhole ends a transmitter's test that the receiver does not end.
var errWhole = errors.New("the test lasted too long")

// looks is how often the clock is read in a trial that goes well.
const looks = 16

// talk is a test with a foreign end over a sequence of connections. It belongs to one
// goroutine, which is locked to its thread.
type talk struct {
	settings Settings
	bounds   bounds
	link     *plane.Link
	out, in  []byte // as long as the current message
	next     func(ctx context.Context) (*plane.Link, error)
	patience func() (quiet, total time.Duration) // nil means bounds alone
}

// limit restarts the timeouts.
func (t *talk) limit() {
	quiet, total := t.bounds.quiet, t.bounds.trial
	if t.patience != nil {
		quiet, total = t.patience()
	}
	t.link.Limit(quiet, total)
}

// control receives a control message.
func (t *talk) control() (Control, error) { return readControl(t.link.Receive) }

// readControl receives a control message. It fails at the first byte that does not fit, instead
// of waiting for more from an end that is out of step.
func readControl(receive func(b []byte) error) (Control, error) {
	var b [SyncBytes]byte
	for _, part := range [][2]int{{0, 1}, {1, QuitBytes}, {QuitBytes, SyncBytes}} {
		if err := receive(b[part[0]:part[1]]); err != nil {
			return 0, fmt.Errorf("wait for sync: %w", err)
		}
		c, _, err := DecodeControl(b[:part[1]])
		if !errors.Is(err, ErrShort) {
			return c, err
		}
	}
	return 0, ErrShort // every control message is at most that long
}

// prepare makes the buffers n bytes long, with the payload of this test.
func (t *talk) prepare(n int) {
	if cap(t.out) < n {
		t.out, t.in = make([]byte, n), make([]byte, n)
	}
	t.out, t.in = t.out[:n], t.in[:n]
	if t.settings.Integrity {
		FillIntegrity(t.out)
		return
	}
	FillPayload(t.out)
}

// bounce does one ping-pong of the current message.
func (t *talk) bounce(first bool) error {
	if first {
		if err := t.link.Send(t.out); err != nil {
			return err
		}
		return t.link.Receive(t.in)
	}
	if err := t.link.Receive(t.in); err != nil {
		return err
	}
	return t.link.Send(t.out)
}

// opening does the 100 ping-pongs before the first point. It returns the first one-way time in
// seconds.
func (t *talk) opening(first bool) (float64, error) {
	t.prepare(t.settings.Start)
	start := time.Now()
	for range OpeningExchanges {
		if err := t.bounce(first); err != nil {
			return 0, fmt.Errorf("exchange the first messages: %w", err)
		}
	}
	return time.Since(start).Seconds() / (2 * OpeningExchanges), nil
}

// messages sends those of one trial and returns the one-way time in seconds.
func (t *talk) messages(repeats int, first bool) (float64, error) {
	t.limit()
	step := max(1, repeats/looks)
	start := time.Now()
	for left := repeats; left > 0; left -= step {
		if err := t.some(min(step, left), first); err != nil {
			return 0, fmt.Errorf("exchange messages of %d bytes: %w", len(t.out), err)
		}
		if left > step && time.Since(start) > t.bounds.trial {
			return 0, fmt.Errorf("exchange messages of %d bytes: %w", len(t.out), plane.ErrStalled)
		}
	}
	return t.settings.OneWay(time.Since(start).Seconds(), repeats), nil
}

// some sends n messages. Except for an integrity check it does nothing else.
func (t *talk) some(n int, first bool) error {
	var one func() error
	switch {
	case t.settings.Bidirectional:
		one = func() error { return t.link.Exchange(t.out, t.in) }
	case t.settings.Streaming && first:
		one = func() error { return t.link.Send(t.out) }
	case t.settings.Streaming:
		one = func() error { return t.link.Receive(t.in) }
	default:
		one = func() error { return t.bounce(first) }
	}
	for range n {
		if err := one(); err != nil {
			return err
		}
		if t.settings.Integrity && (!t.settings.Streaming || !first) {
			if err := CheckIntegrity(t.in); err != nil {
				return err
			}
		}
	}
	return nil
}

// take replaces the connection by the next one.
func (t *talk) take(ctx context.Context) error {
	// Errors of an ended connection do not matter.
	_ = t.link.Close()
	t.link = nil
	next, err := t.next(ctx)
	if err != nil {
		return err
	}
	t.link = next
	return nil
}

// adopt makes a link of c. If that fails it closes c.
func adopt(c *net.TCPConn) (*plane.Link, error) {
	if err := c.SetNoDelay(true); err != nil {
		return nil, errors.Join(fmt.Errorf("set up connection: %w", err), c.Close())
	}
	l, err := plane.New(c, false)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return l, nil
}

// buffers returns the system's socket buffers before a connection, with -b window, or 0 for
// none: NPtcp bounds a test with -2 by them.
func buffers(ctx context.Context, window int) (send, receive int, err error) {
	l, err := (&net.ListenConfig{Control: sockio.Control(engine.SocketOptions{Window: window, NoDelay: true})}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, 0, fmt.Errorf("read socket buffers: %w", err)
	}
	defer l.Close()
	g, err := sockio.Read(l.(*net.TCPListener))
	if err != nil {
		return 0, 0, fmt.Errorf("read socket buffers: %w", err)
	}
	return int(g.SendBuffer.Or(0)), int(g.RecvBuffer.Or(0)), nil
}
