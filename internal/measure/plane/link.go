// Package plane moves payload over TCP connections with every way of waiting for the kernel
// that systems have. A Link moves whole messages with the least delay that the system allows,
// and every wait has a timeout.
//
// On Linux and FreeBSD the connection leaves the Go runtime: the calling thread blocks, or
// polls, in raw system calls. The runtime does not see them, so the caller prepares its
// goroutine with Thread. Elsewhere the runtime's poller waits.
//
// Every wait of a Link has two bounds: a time without progress, and a total time. Progress is a
// byte sent, received or, if the kernel reports it, acknowledged.
package plane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"linerate/internal/measure/goruntime"
)

// ErrStalled reports that one of the two bounds of Limit was reached.
var ErrStalled = errors.New("stalled")

// ErrInterrupted reports that Interrupt was called.
var ErrInterrupted = errors.New("stopped")

// Link is one TCP connection. Its methods are for one goroutine at a time; Interrupt may be
// called from any.
type Link struct {
	wire wire
	sent *atomic.Int64 // nil if not requested
}

// wire is the part of a link that differs between systems.
type wire interface {
	waiting() string
	send(b []byte) error
	receive(b []byte) error
	exchange(out, in []byte) error
	limit(quiet, total time.Duration)
	received() int64
	interrupt()
	linger(seconds int)
	close() error
}

// New takes over c, which is closed with the link; on an error the caller closes c. With spin
// the link polls instead of blocking, which costs a core and saves a wake-up; if that is not
// possible the link blocks, and Waiting shows it.
func New(c *net.TCPConn, spin bool) (*Link, error) {
	w, err := newWire(c, spin)
	if err != nil {
		return nil, fmt.Errorf("take over connection: %w", err)
	}
	l := &Link{wire: w}
	l.Limit(defaultQuiet, defaultTotal)
	return l, nil
}

// NewPoller is New with the Go runtime's poller, which New uses only if there is nothing
// better.
func NewPoller(c *net.TCPConn) *Link {
	l := &Link{wire: newPoller(c)}
	l.Limit(defaultQuiet, defaultTotal)
	return l
}

// The bounds of a link before Limit is called.
const (
	defaultQuiet = 10 * time.Second
	defaultTotal = time.Minute
)

// Waiting names how the link waits: "blocking thread", "polling thread" or
// "poller".
func (l *Link) Waiting() string { return l.wire.waiting() }

// Limit restarts the bounds: later calls fail with ErrStalled after quiet without progress, or
// total from now. The first is checked about every 100 ms, and except on Linux may take up to
// twice as long; the second is checked only while the link waits, so that a loop over many
// messages must also check its own clock.
func (l *Link) Limit(quiet, total time.Duration) { l.wire.limit(quiet, total) }

// Count adds the bytes of messages sent from now on to sent.
func (l *Link) Count(sent *atomic.Int64) { l.sent = sent }

// Send sends all of b.
func (l *Link) Send(b []byte) error { return l.counted(len(b), l.wire.send(b)) }

// counted counts n bytes unless err is set.
func (l *Link) counted(n int, err error) error {
	if l.sent != nil && err == nil {
		l.sent.Add(int64(n))
	}
	return err
}

// Receive fills b. The error is io.EOF if the peer closed the connection before the first byte,
// and io.ErrUnexpectedEOF after it.
func (l *Link) Receive(b []byte) error { return l.wire.receive(b) }

// Exchange sends all of out and fills in at the same time. It cannot deadlock with a peer that
// does the same, however small the buffers are.
func (l *Link) Exchange(out, in []byte) error { return l.counted(len(out), l.wire.exchange(out, in)) }

// Received returns how many bytes have been received so far.
func (l *Link) Received() int64 { return l.wire.received() }

// Interrupt makes current and later calls fail soon with ErrInterrupted.
func (l *Link) Interrupt() { l.wire.interrupt() }

// Abort is Close for a peer that reads no more: it resets the connection, whereas Close would
// queue the FIN behind payload that never arrives.
func (l *Link) Abort() error {
	l.wire.linger(0)
	return l.wire.close()
}

// Close closes the connection. It must not run beside another call.
func (l *Link) Close() error { return l.wire.close() }

// Thread prepares the calling goroutine for l and similar links: it keeps the Go runtime quiet,
// and if the link makes raw system calls locks the goroutine to a thread. release undoes it, in
// the same goroutine.
func Thread(l *Link) (release func()) {
	if l.Waiting() == (*poller)(nil).waiting() {
		return goruntime.Begin(0).End
	}
	runtime.LockOSThread()
	hold := goruntime.Begin(1)
	return func() {
		hold.End()
		runtime.UnlockOSThread()
	}
}

// Payload returns n pseudo-random bytes, the same in every run, which no link compresses.
func Payload(n int) []byte {
	b := make([]byte, n)
	// Read of a ChaCha8 never fails.
	_, _ = rand.NewChaCha8([32]byte{'l', 'i', 'n', 'e', 'r', 'a', 't', 'e'}).Read(b)
	return b
}
