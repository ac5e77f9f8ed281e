package reqresp

import (
	"runtime"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// TestSpin waits by polling if there are enough cores, and otherwise has a warning.
// TestSpinning checks the CPU time that distinguishes polling from sleeping.
func TestSpin(t *testing.T) {
	must.SkipIf(t, runtime.NumCPU() < 2, "needs a core for each end")
	spin(t)
	for streams, waiting := range map[int]string{runtime.NumCPU(): "blocking thread", 64 * runtime.NumCPU(): "poller"} {
		p, warning := chooseWaiter(streams, true)
		must.True(t, p.waiting() == waiting && strings.Contains(warning, "not possible"), "%d streams wait as %q with warning %q", streams, p.waiting(), warning)
	}
}

// spin runs a flow whose ends poll, and returns how many CPUs this process used.
func spin(t testing.TB) float64 {
	t.Helper()
	f := brief(model.To, 1)
	f.Params = traffic.Write(requests.Params{Spin: true})
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
	near.Start(t.Context())
	far.Start(t.Context())
	must.Wait(t, "asking end", near.Done)
	must.Wait(t, "answering end", far.Done)
	must.Do(t, near.Err)
	check(t, near, far, f, f.Direction)
	must.True(t, near.Report.Waiting == "polling thread" && far.Report.Waiting == "polling thread", "waited as %q and %q", near.Report.Waiting, far.Report.Waiting)
	return (near.Report.CPUUser + near.Report.CPUSystem).Seconds() / near.Report.CPUWindow.Seconds()
}
