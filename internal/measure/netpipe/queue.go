package netpipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"linerate/internal/measure/accept"
	"linerate/internal/measure/plane"
	"linerate/internal/panics"
)

// mostSilent is how many connections may be open without having sent anything.
const mostSilent = 128

// queue holds the connections that have sent their first message and wait for their turn.
type queue struct {
	most     int
	arrived  chan struct{} // holds one element when something arrived
	unknown  *accept.Crowd // that have sent nothing yet
	greeting sync.WaitGroup
	tell     func(Event)
	resets   bool // the current transmitter reconnects

	mu      sync.Mutex
	callers []caller // in order of arrival
	served  netip.Addr
	closed  bool
}

// caller is a waiting connection.
type caller struct {
	conn *net.TCPConn
	from netip.Addr
	at   time.Time
	said Control // its first message; 0 if it was not read yet
}

// errCrowded ends a connection that was dropped for another one.
var errCrowded = errors.New("made room for others: too many transmitters have said nothing")

// accept accepts connections until listener is closed, and queues each once it has sent its
// first message, which must arrive within patience.
func (q *queue) accept(ctx context.Context, listener net.Listener, patience time.Duration) error {
	note := func(line string) { q.tell(Event{Note: line}) }
	return accept.Loop(ctx, listener, note, func(c net.Conn) {
		conn, ok := c.(*net.TCPConn)
		if !ok {
			note(fmt.Sprintf("accepted a %T, which is not TCP", c))
			_ = c.Close()
			return
		}
		// A TCP connection always has a remote address.
		from, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
		one := caller{conn: conn, from: from.Addr().Unmap(), at: time.Now()}
		if q.expects(one.from) {
			q.add(one) // with -s the receiver sends first here
			return
		}
		place := q.unknown.Enter(one.from, func() { _ = conn.Close() })
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		broken := func(err error) {
			_ = conn.Close()
			place.Leave()
			q.tell(Event{From: one.from, Err: err})
		}
		q.greeting.Go(panics.From(broken, func() {
			err := one.greet(patience)
			stop()
			if !place.Leave() {
				err = errCrowded
			}
			if err != nil {
				_ = conn.Close()
				if ctx.Err() == nil {
					q.tell(Event{From: one.from, Err: err})
				}
				return
			}
			q.add(one)
		}))
	})
}

// greet reads the first message. All of it must arrive in time, so that a client that sends a
// byte now and then counts as silent too.
func (c *caller) greet(patience time.Duration) error {
	if err := c.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	said, err := readControl(func(b []byte) error {
		_, err := io.ReadFull(c.conn, b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = plane.ErrStalled
		}
		return err
	})
	if err != nil {
		return err
	}
	c.said = said
	return c.conn.SetReadDeadline(time.Time{})
}

// add appends c, or closes it if the queue is full.
func (q *queue) add(c caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := q.most
	if c.from == q.served {
		most++
	}
	if q.closed || len(q.callers) >= most {
		_ = c.conn.Close()
		if !q.closed {
			go q.tell(Event{From: c.from, Err: fmt.Errorf("%d others wait already", len(q.callers))})
		}
		return
	}
	q.callers = append(q.callers, c)
	select {
	case q.arrived <- struct{}{}:
	default:
	}
}

// contended reports whether another transmitter waits.
func (q *queue) contended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.callers, func(c caller) bool { return !q.resets || c.from != q.served })
}

// first waits for the next caller.
func (q *queue) first(ctx context.Context) (caller, error) {
	return q.wait(ctx, func(caller) bool { return true })
}

// again waits for a connection from that address that was made after since.
func (q *queue) again(ctx context.Context, from netip.Addr, since time.Time) (caller, error) {
	return q.wait(ctx, func(c caller) bool { return c.from == from && !c.at.Before(since) })
}

// expects reports whether the current transmitter may reconnect from there.
func (q *queue) expects(from netip.Addr) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.resets && from == q.served
}

// serving sets the address of the current transmitter, whose reconnections have a place.
func (q *queue) serving(from netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.served = from
}

// wait removes the first caller that fits from the queue.
func (q *queue) wait(ctx context.Context, fits func(caller) bool) (caller, error) {
	for {
		if ctx.Err() != nil {
			return caller{}, context.Cause(ctx)
		}
		if c, ok := q.take(fits); ok {
			return c, nil
		}
		select {
		case <-q.arrived:
		case <-ctx.Done():
		}
	}
}

func (q *queue) take(fits func(caller) bool) (caller, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, c := range q.callers {
		if fits(c) {
			q.callers = append(q.callers[:i:i], q.callers[i+1:]...)
			return c, true
		}
	}
	return caller{}, false
}

// close closes all waiting connections.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, c := range q.callers {
		_ = c.conn.Close()
	}
	q.callers = nil
}
