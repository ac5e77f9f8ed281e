package watchdog

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is a clock that is never set: CLOCK_MONOTONIC, clock_gettime(2). It may stand
// still while the machine sleeps.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock_gettime(CLOCK_MONOTONIC): " + err.Error()) // every version has it
	}
	return time.Duration(ts.Nano())
}
