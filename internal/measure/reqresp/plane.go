package reqresp

import (
	"net"
	"time"

	"linerate/internal/measure/plane"
)

// A waiter is one way to wait for the kernel and for the clock.
type waiter interface {
	// threads returns how many threads that keep their processor serve n streams.
	threads(n int) int
	// attach takes over c. If it fails the caller still owns c.
	attach(c *net.TCPConn) (*plane.Link, error)
	// waiting returns the name of the way, for the report.
	waiting() string
	// work runs f in the caller's goroutine, prepared for measuring.
	work(f func())
	// nap waits for d; it may take longer.
	nap(d time.Duration)
	// margin is how long before its due time a worker starts to watch the clock; 0 means that
	// it naps until then.
	margin() time.Duration
}

// poller is the portable way: a goroutine per stream, and the Go runtime waits for all.
type poller struct{}

func (poller) waiting() string { return "poller" }

// threads is 0: a waiting goroutine releases its processor.
func (poller) threads(int) int { return 0 }

func (poller) attach(c *net.TCPConn) (*plane.Link, error) { return plane.NewPoller(c), nil }

func (poller) work(f func()) { f() }

func (poller) nap(d time.Duration) { nap(d) }

// margin is 0: watching the clock would take the processor from others.
func (poller) margin() time.Duration { return 0 }

// errStopped reports that a call was interrupted to stop this end.
var errStopped = plane.ErrInterrupted

// longestNap bounds how long a worker that waits for the clock misses a stop.
const longestNap = 100 * time.Millisecond

// whole is longer than any run: the sampler ends calls that wait too long.
const whole = 1000 * 24 * time.Hour
