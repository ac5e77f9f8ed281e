package datagram

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ReceiverOptions configure a Receiver.
type ReceiverOptions struct {
	// Start is the origin of all times.
	Start time.Time
	// Size is the payload of the largest datagram expected, in bytes.
	Size int
	// Handle is called for each datagram with its arrival time: the kernel's time stamp if
	// there is one, else the time at which the call returned. follows is true for all but the
	// first of a train. Handle must not allocate or keep b. A datagram longer than Size arrives
	// cut to Size+1 or more bytes.
	Handle func(b []byte, at time.Duration, follows bool)
	// After is called after each batch, and at least every 0.1 s. It returns false to end the
	// loop.
	After func(at time.Duration) bool
	// Spin is how long the receiver polls for more before it sleeps.
	Spin time.Duration
}

// Receiver is a receive loop.
type Receiver struct {
	conn   *Conn
	o      ReceiverOptions
	rx     collector
	trains atomic.Bool
	stop   atomic.Bool
}

// NewReceiver prepares a loop that receives over c.
func NewReceiver(c *Conn, o ReceiverOptions) (*Receiver, error) {
	if o.Size < 1 || o.Size > MaxPayload {
		return nil, fmt.Errorf("datagrams of %d bytes: not between 1 and %d", o.Size, MaxPayload)
	}
	return &Receiver{conn: c, o: o, rx: c.socket.prepareReceive(o.Size, !c.plain)}, nil
}

// Start resets the origin of all times, before Run.
func (r *Receiver) Start(t time.Time) { r.o.Start = t }

// Coalesced reports whether the kernel joined datagrams.
func (r *Receiver) Coalesced() bool { return r.trains.Load() }

// Stop makes Run return soon.
func (r *Receiver) Stop() {
	r.stop.Store(true)
	r.conn.socket.interrupt()
}

// Run receives until After returns false, Stop is called, or the socket fails. It keeps its
// thread busy.
func (r *Receiver) Run() error {
	quiet := time.Since(r.o.Start) // when the last datagram came, or polling began
	for !r.stop.Load() {
		n, o, err := r.rx.receive(time.Since(r.o.Start)-quiet >= r.o.Spin)
		now := time.Now()
		at := now.Sub(r.o.Start)
		switch {
		case o == broken && !r.stop.Load():
			return fmt.Errorf("receive datagrams: %w", errors.Join(err))
		case n > 0:
			quiet = at
			r.take(n, at, now.UnixNano())
		}
		if !r.o.After(at) {
			return nil
		}
	}
	for range unread {
		n, _, _ := r.rx.receive(false)
		if n <= 0 {
			break
		}
		now := time.Now()
		r.take(n, now.Sub(r.o.Start), now.UnixNano())
	}
	return nil
}

// unread is how many batches are read after Stop: datagrams that had arrived by then, as many
// as a usual socket buffer holds.
const unread = 64

// take passes n pieces to Handle. The kernel's time stamps are wall time, which may be set
// meanwhile: only their distance from the present is used.
func (r *Receiver) take(n int, at time.Duration, wall int64) {
	for i := range n {
		b, each, stamp := r.rx.piece(i)
		came := at
		if stamp != 0 {
			came -= time.Duration(max(0, wall-stamp))
		}
		if each <= 0 || each >= len(b) {
			r.o.Handle(b, came, false)
			continue
		}
		r.trains.Store(true)
		r.o.Handle(b[:each], came, false)
		for b = b[each:]; len(b) > 0; b = b[min(each, len(b)):] {
			r.o.Handle(b[:min(each, len(b))], came, true)
		}
	}
}
