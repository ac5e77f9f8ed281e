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
	// attach takes c over. The caller still owns c when it fails.
	attach(c *net.TCPConn) (*plane.Link, error)
	// waiting names the way, for the report.
	waiting() string
	// work runs f in the caller's goroutine, prepared for measuring.
	work(f func())
	// nap waits for d; it may take longer.
	nap(d time.Duration)
	// margin is how long before it is due a worker begins to watch the clock;
	// 0 is never: it naps until then.
	margin() time.Duration
}

// poller is the portable way: a goroutine per stream, and the Go runtime
// waits for all.
type poller struct{}

func (poller) waiting() string { return "poller" }

// threads is 0: a goroutine that waits gives its processor away.
func (poller) threads(int) int { return 0 }

func (poller) attach(c *net.TCPConn) (*plane.Link, error) { return plane.NewPoller(c), nil }

func (poller) work(f func()) { f() }

func (poller) nap(d time.Duration) { nap(d) }

// margin is 0: watching the clock would take the processor from others.
func (poller) margin() time.Duration { return 0 }

// errStopped says that a call was given up because its end wanted to.
var errStopped = plane.ErrInterrupted

// longestNap bounds how long a worker that waits for the clock misses a stop.
const longestNap = 100 * time.Millisecond

// whole is longer than any run: the sampler ends what waits too long.
const whole = 1000 * 24 * time.Hour
