package reqresp

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/enginetest"
)

// runnable returns how often each of this process's threads that runs, or waits
// for its turn to, has gone to sleep so far: State and voluntary_ctxt_switches of
// proc_pid_status(5).
func runnable(t *testing.T) map[string]string {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if err != nil {
			continue // it has ended
		}
		if _, sleeps, found := strings.Cut(string(text), "\nvoluntary_ctxt_switches:"); found && strings.Contains(string(text), "\nState:\tR") {
			out[task.Name()], _, _ = strings.Cut(sleeps, "\n")
		}
	}
	return out
}

// polling counts the threads that never slept in a good part of a run, as one that
// polls does however busy the machine is, and returns what both ends say of how they wait.
func polling(t *testing.T, spin bool) (threads int, waiting string) {
	t.Helper()
	f := brief(model.To, 1)
	f.Duration, f.Requests = 400*time.Millisecond, &model.Requests{Spin: spin}
	near, far := enginetest.Prepare(t, New(), enginetest.NewWire(t), f)
	far.Start(t.Context())
	near.Start(t.Context())
	near.AwaitSample(t, func(model.Sample) bool { return true })
	before := runnable(t)
	near.AwaitSample(t, func(s model.Sample) bool { return s.Start >= 200*time.Millisecond })
	for thread, sleeps := range runnable(t) {
		if was, ran := before[thread]; ran && sleeps == was {
			threads++
		}
	}
	enginetest.Await(t, near.Done, "asking end")
	enginetest.Await(t, far.Done, "answering end")
	switch err := errors.Join(near.Err, far.Err); {
	case err == nil:
		check(t, near, far, f, f.Direction)
	case strings.Contains(err.Error(), "was answered"): // neither had a turn while the other had one
		t.Log(err)
	default:
		t.Fatal(err)
	}
	return threads, near.Report.Waiting + ", " + far.Report.Waiting
}

// TestSpin waits by polling where there are cores for it, and says so where not.
func TestSpin(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs a core for each end")
	}
	enginetest.Try(t, func() string {
		if threads, waiting := polling(t, true); threads < 2 || waiting != "spinning thread, spinning thread" {
			return fmt.Sprintf("%d threads poll where two ends should; they waited as %s", threads, waiting)
		}
		return ""
	})
	enginetest.Try(t, func() string {
		if threads, waiting := polling(t, false); threads > 0 || waiting != "blocking thread, blocking thread" {
			return fmt.Sprintf("%d threads poll where none should; they waited as %s", threads, waiting)
		}
		return ""
	})
	for streams, waiting := range map[int]string{runtime.NumCPU(): "blocking thread", 64 * runtime.NumCPU(): "poller"} {
		p, warning := choosePlane(streams, true)
		if p.waiting() != waiting || !strings.Contains(warning, "not possible") {
			t.Errorf("%d streams wait as %q with warning %q", streams, p.waiting(), warning)
		}
	}
}
