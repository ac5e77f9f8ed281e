package watchdog

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is a clock that is never set and that runs while the machine sleeps:
// CLOCK_BOOTTIME, clock_gettime(2).
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("clock_gettime(CLOCK_BOOTTIME): " + err.Error()) // every kernel since 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}
