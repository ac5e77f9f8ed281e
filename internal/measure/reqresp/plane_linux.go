package reqresp

import (
	"fmt"
	"net"
	"runtime"
	"time"

	"linerate/internal/measure/plane"

	"golang.org/x/sys/unix"
)

// threadsPerCore is the limit up to which a thread per stream answers more requests than
// goroutines do. Measured with both ends in one process, over loopback, on two cores that other
// work kept busy, 1 byte each way, in thousands of requests per second: 395 by threads and 238
// by goroutines with 4 streams, 360 and 230 with 8, 284 and 255 with 16, 200 and 249 with 64.
const threadsPerCore = 8

// chooseWaiter returns the way for that many streams, and a warning if it is not the requested
// one: one thread for each while they are few for the cores, goroutines beyond that. Polling
// needs a core for each stream, and one for everything else.
func chooseWaiter(streams int, spin bool) (waiter, string) {
	cores := runtime.NumCPU()
	switch {
	case spin && streams < cores:
		return direct{spin: true}, ""
	case streams <= threadsPerCore*cores:
		if spin {
			return direct{}, fmt.Sprintf("waiting by polling is not possible for %d streams on %d cores", streams, cores)
		}
		return direct{}, ""
	}
	if spin {
		return poller{}, fmt.Sprintf("waiting by polling is not possible for %d streams on %d cores", streams, cores)
	}
	return poller{}, ""
}

// direct is the way with a locked thread per stream and raw system calls.
type direct struct {
	spin bool // the socket is non-blocking: the thread polls
}

func (d direct) waiting() string {
	if d.spin {
		return "polling thread"
	}
	return "blocking thread"
}

func (direct) threads(n int) int { return n }

// watch is how long before its due time a thread stops napping: twice the maximum overshoot of
// a nap of 1 ms in 90 of 100 cases with a timer slack of 1 ns (two cores of a virtual machine,
// Linux 6.18: median 7 µs, p90 14 µs, p99 45 µs).
const watch = 30 * time.Microsecond

func (direct) margin() time.Duration { return watch }

func (direct) nap(d time.Duration) { nap(d) }

// work locks the thread and removes the slack of its timers, which is 50 µs (prctl(2),
// PR_SET_TIMERSLACK).
func (direct) work(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// If that is not permitted naps are longer, and the report shows it.
	if unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) == nil {
		// 0 restores the thread's default.
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }()
	}
	f()
}

// nap works on any thread: the runtime's own clock has a granularity of 1 ms. The scheduler
// sees the call, since a nap is long.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	// A signal ends it early; the caller checks the clock again.
	_ = unix.Nanosleep(&ts, nil)
}

func (d direct) attach(c *net.TCPConn) (*plane.Link, error) { return plane.New(c, d.spin) }
