//go:build truth && linux

package counters

import (
	"testing"
	"time"

	"linerate/internal/truth"
)

// TestCost: at one reading per second, 1 ms is a thousandth of a core.
func TestCost(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		w, best := watching(try, "lo"), time.Hour
		for range 50 {
			start := time.Now()
			reading(try, w)
			best = min(best, time.Since(start))
		}
		try.Claim("fastest of 50 readings", 1e3*best.Seconds(), 0, 10, "ms")
	})
}
