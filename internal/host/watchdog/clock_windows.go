package watchdog

import (
	"time"

	"golang.org/x/sys/windows"
)

// sinceBoot is a clock that is never set and that runs while the machine sleeps:
// GetTickCount64, in steps of 10 to 16 ms.
func sinceBoot() time.Duration { return windows.DurationSinceBoot() }
