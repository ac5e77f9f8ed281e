//go:build truth

package reqresp

import (
	"testing"
	"time"

	"linerate/internal/truth"
)

// TestMedianOfADelay compares the histogram with a path whose delay is known.
func TestMedianOfADelay(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		const delay = 20 * time.Millisecond
		try.Claim("median", 1e3*delayed(try, delay).Seconds(), 2e3*delay.Seconds(), 2.2e3*delay.Seconds(), "ms")
	})
}
