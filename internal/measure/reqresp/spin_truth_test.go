//go:build truth && linux

package reqresp

import (
	"runtime"
	"testing"

	"linerate/internal/truth"
)

// TestSpinning: an end that polls is never idle. Both ends are threads of this process.
func TestSpinning(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs a core for each end")
	}
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		try.Claim("used by both ends", spin(try), 1.5, 2.1, "processors")
	})
}
