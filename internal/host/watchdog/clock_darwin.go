package watchdog

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is a clock that is never set and that runs while the machine sleeps:
// CLOCK_MONOTONIC_RAW, clock_gettime(3) of macOS.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts); err != nil {
		panic("clock_gettime(CLOCK_MONOTONIC_RAW): " + err.Error()) // every system since 10.12 has it
	}
	return time.Duration(ts.Nano())
}
