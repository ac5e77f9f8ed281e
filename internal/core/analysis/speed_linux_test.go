package analysis

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// TestLongSessionTakesLittle: one look at a long session takes less than half a second
// of processor time, whatever else the machine does. The least of a few looks counts.
func TestLongSessionTakesLittle(t *testing.T) {
	p, runs := longSession(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		const thread = 1 // RUSAGE_THREAD
		var u syscall.Rusage
		if err := syscall.Getrusage(thread, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	least := time.Hour
	for range 3 {
		before := used()
		if r := Analyse(p, runs); r.Blocks != 500 || len(r.Verdicts) != 6*5 {
			t.Fatalf("%d blocks, %d verdicts", r.Blocks, len(r.Verdicts))
		}
		least = min(least, used()-before)
	}
	t.Logf("%v", least)
	if least > 500*time.Millisecond {
		t.Errorf("a look at 500 blocks of 5 settings takes %v of processor time", least)
	}
}
