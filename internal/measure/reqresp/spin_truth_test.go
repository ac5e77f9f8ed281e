//go:build truth && linux

package reqresp

import (
	"runtime"
	"testing"

	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestSpinning: an end that polls is never idle. Both ends are threads of this process.
func TestSpinning(t *testing.T) {
	must.SkipIf(t, runtime.NumCPU() < 2, "needs a core for each end")
	truth.Hold(t, truth.Tries, func(try *truth.Try) { try.Claim("used by both ends", spin(try), 1.5, 2.1, "processors") })
}
