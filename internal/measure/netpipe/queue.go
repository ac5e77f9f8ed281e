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
	"linerate/internal/rescue"
)

// mostSilent is how many connections may have said nothing yet.
const mostSilent = 128

// queue holds the connections that have said their first word and are not yet
// served.
type queue struct {
	most     int
	arrived  chan struct{} // holds one element when something arrived
	unknown  *accept.Crowd // that have said nothing yet
	greeting sync.WaitGroup
	tell     func(Event)
	resets   bool // who has its turn connects again

	mu      sync.Mutex
	callers []caller // in the order of their arrival
	served  netip.Addr
	closed  bool
}

// caller is a connection that waits.
type caller struct {
	conn *net.TCPConn
	from netip.Addr
	at   time.Time
	said Control // its first word; 0 where it need not be there yet
}

// errCrowded ends a connection for which there is no place any more.
var errCrowded = errors.New("made room for others: too many transmitters have said nothing")

// accept takes connections until listener is closed, and queues each when it has
// said its first word, for which it has so long.
func (q *queue) accept(ctx context.Context, listener net.Listener, patience time.Duration) error {
	note := func(line string) { q.tell(Event{Note: line}) }
	return accept.Loop(ctx, listener, note, func(c net.Conn) {
		conn, ok := c.(*net.TCPConn)
		if !ok {
			note(fmt.Sprintf("accepted a %T, which is not TCP", c))
			_ = c.Close()
			return
		}
		// Its own address is what a TCP connection always has.
		from, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
		one := caller{conn: conn, from: from.Addr().Unmap(), at: time.Now()}
		if q.expects(one.from) {
			q.add(one) // with -s the receiver has the first word then
			return
		}
		place := q.unknown.Enter(one.from, func() { _ = conn.Close() })
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		broken := func(err error) {
			_ = conn.Close()
			place.Leave()
			q.tell(Event{From: one.from, Err: err})
		}
		q.greeting.Go(rescue.From(broken, func() {
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

// greet reads the first word. The whole of it must come in time, so that who sends
// a byte now and then is silent too.
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

// add appends c, or closes it where no more may wait.
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

// contended reports whether somebody else waits than who has the turn.
func (q *queue) contended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.callers, func(c caller) bool { return !q.resets || c.from != q.served })
}

// first waits for the caller whose turn it is.
func (q *queue) first(ctx context.Context) (caller, error) {
	return q.wait(ctx, func(caller) bool { return true })
}

// again waits for a connection from that address which was made after since.
func (q *queue) again(ctx context.Context, from netip.Addr, since time.Time) (caller, error) {
	return q.wait(ctx, func(c caller) bool { return c.from == from && !c.at.Before(since) })
}

// expects reports whether who has its turn may connect again from there.
func (q *queue) expects(from netip.Addr) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.resets && from == q.served
}

// serving names who has its turn: its further connections have a place.
func (q *queue) serving(from netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.served = from
}

// wait takes the first caller that fits out of the queue.
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

// close lets go of all who wait.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, c := range q.callers {
		_ = c.conn.Close()
	}
	q.callers = nil
}
