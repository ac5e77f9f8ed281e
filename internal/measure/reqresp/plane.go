package reqresp

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"
)

// A plane is one way to wait for the kernel and for the clock.
type plane interface {
	// waiting names the way, for the report.
	waiting() string
	// threads returns how many threads that keep their processor serve n streams.
	threads(n int) int
	// attach takes c over. The caller still owns c when it fails. Calls on the
	// line return errStopped soon after stop is set and the line interrupted.
	attach(c *net.TCPConn, stop *atomic.Bool) (line, error)
	// work runs f in the caller's goroutine, prepared for measuring.
	work(f func())
	// nap waits for d; it may take longer.
	nap(d time.Duration)
	// margin is how long before it is due a worker begins to watch the clock;
	// 0 is never: it naps until then.
	margin() time.Duration
}

// A line is a connection in the hands of a plane.
type line interface {
	// send sends all of b.
	send(b []byte) error
	// receive fills b. The error is io.EOF where the peer ended before its
	// first byte, and io.ErrUnexpectedEOF where it ended later.
	receive(b []byte) error
	// interrupt wakes who waits; the connection is of no use after that.
	interrupt()
	close() error
}

// errStopped says that a call was given up because its end wanted to.
var errStopped = errors.New("stopped")

// longestNap bounds how long a worker that waits for the clock misses a stop.
const longestNap = 100 * time.Millisecond

// payload returns n pseudo-random bytes, the same in every run.
func payload(n int) []byte {
	b := make([]byte, n)
	// Read of a ChaCha8 never fails.
	_, _ = rand.NewChaCha8([32]byte{'r', 'e', 'q', 'u', 'e', 's', 't', 's'}).Read(b)
	return b
}
