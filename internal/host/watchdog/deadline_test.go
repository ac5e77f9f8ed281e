package watchdog

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// TestNoTimeBelowNothing: a deadline that has already passed is refused, and the error shows
// no negative duration.
func TestNoTimeBelowNothing(t *testing.T) {
	s := &server{cfg: Config{Cap: time.Minute}, clock: func() time.Duration { return time.Hour }}
	for _, d := range []time.Duration{0, -1, -5340 * time.Millisecond} {
		for _, err := range []error{s.checkDeadline(d), s.extend(d)} {
			must.True(t, err != nil && !strings.Contains(err.Error(), "-") && strings.Contains(err.Error(), "over before they are made"), "%v: %v", d, err)
		}
	}
}
