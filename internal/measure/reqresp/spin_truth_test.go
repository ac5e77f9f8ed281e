//go:build truth && linux

package reqresp

import (
	"runtime"
	"testing"

	"linerate/internal/truth"
)

// TestSpinning: an end that polls is never idle.
func TestSpinning(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs a core for each end")
	}
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		try.Claim("used of a processor", spin(try), 0.5, 1.2, "")
	})
}
