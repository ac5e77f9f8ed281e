//go:build !linux

package reqresp

import (
	"runtime"
	"time"
)

// chooseWaiter returns the way for so many streams, and a warning where it is
// not as asked.
func chooseWaiter(_ int, spin bool) (waiter, string) {
	if spin {
		return poller{}, "waiting by polling is not possible on " + runtime.GOOS
	}
	return poller{}, ""
}

// nap waits for d, and about a millisecond longer: the grain of the runtime's
// clock.
func nap(d time.Duration) { time.Sleep(d) }
