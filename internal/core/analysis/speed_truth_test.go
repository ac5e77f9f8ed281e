//go:build truth && linux

package analysis

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestLongSessionTakesLittle: one look at a long session takes less than half a second
// of processor time, whatever else the machine does.
func TestLongSessionTakesLittle(t *testing.T) {
	p, runs := longSession(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		used := func() time.Duration {
			const thread = 1 // RUSAGE_THREAD
			var u syscall.Rusage
			must.Do(t, syscall.Getrusage(thread, &u))
			return time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
		before := used()
		r := Analyse(p, runs)
		must.Need(try, r.Blocks == 500 && len(r.Verdicts) == 6*5, "%d blocks, %d verdicts", r.Blocks, len(r.Verdicts))
		try.Claim("processor time of a look at 500 blocks of 5 settings", 1e3*(used()-before).Seconds(), 0, 500, "ms")
	})
}
