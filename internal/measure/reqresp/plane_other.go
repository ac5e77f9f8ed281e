//go:build !linux

package reqresp

import (
	"runtime"
	"time"
)

// chooseWaiter returns the way for that many streams, and a warning if it is not the requested
// one.
func chooseWaiter(_ int, spin bool) (waiter, string) {
	if spin {
		return poller{}, "waiting by polling is not possible on " + runtime.GOOS
	}
	return poller{}, ""
}

// nap waits for d, and about a millisecond longer: the granularity of the runtime's clock.
func nap(d time.Duration) { time.Sleep(d) }
