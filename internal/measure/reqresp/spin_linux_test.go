package reqresp

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/measure/enginetest"
)

// TestSpin waits by polling where there are cores for it, and says so where not.
// What tells polling from sleeping is the processor time, which a machine that
// has none left does not give: there it can show nothing.
func TestSpin(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs a core for each end")
	}
	f := brief(model.To, 1)
	f.Params = traffic.Write(requests.Params{Spin: true})
	var used, window time.Duration
	var system float64 // busy cores of the whole machine
	// Other work on the machine may take the processor away.
	for try := 0; try < 3 && used <= window/2; try++ {
		near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
		near.Start(t.Context())
		far.Start(t.Context())
		enginetest.Await(t, near.Done, "asking end")
		enginetest.Await(t, far.Done, "answering end")
		if near.Err != nil {
			t.Log(near.Err)
			continue
		}
		check(t, near, far, f, f.Direction)
		if near.Report.Waiting != "spinning thread" || far.Report.Waiting != "spinning thread" {
			t.Errorf("waited as %q and %q", near.Report.Waiting, far.Report.Waiting)
		}
		// Who polls is never idle.
		used, window = near.Report.CPUUser+near.Report.CPUSystem, near.Report.CPUWindow
		system = near.Report.SystemBusy.Or(0)
	}
	if busy := system / float64(runtime.NumCPU()); window > 0 && used <= window/2 && busy > 0.9 {
		t.Skipf("other work kept the processors busy: polling got %v of CPU in %v", used, window)
	}
	if window == 0 || used <= window/2 {
		t.Errorf("polling took %v of CPU in %v", used, window)
	}
	for streams, waiting := range map[int]string{runtime.NumCPU(): "blocking thread", 64 * runtime.NumCPU(): "poller"} {
		p, warning := choosePlane(streams, true)
		if p.waiting() != waiting || !strings.Contains(warning, "not possible") {
			t.Errorf("%d streams wait as %q with warning %q", streams, p.waiting(), warning)
		}
	}
}
