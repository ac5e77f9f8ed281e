package run

import (
	"errors"
	"math"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/measure/sockio"
	"linerate/internal/must"
)

func edge(at, user, system, busy time.Duration) Processor {
	return Processor{At: at, process: sockio.CPUTime{User: user, System: system}, busy: fact.Known(busy, source)}
}

func TestFill(t *testing.T) {
	out := model.EndReport{Host: model.Far, Waiting: "poller"}
	Fill(&out, edge(2*time.Second, time.Second, 3*time.Second, 10*time.Second),
		edge(6*time.Second, 2*time.Second, 6*time.Second, 16*time.Second))
	must.True(t, out.CPUUser == time.Second && out.CPUSystem == 3*time.Second && out.CPUWindow == 4*time.Second,
		"used %v and %v in %v", out.CPUUser, out.CPUSystem, out.CPUWindow)
	busy, known := out.SystemBusy.Get()
	must.True(t, known && math.Abs(busy-1.5) <= 1e-12, "%v cores were busy, want 1.5", out.SystemBusy)
	must.True(t, out.Host == model.Far && out.Waiting == "poller", "changed what it does not own: %+v", out)
}

// TestFillSaysWhy: an unknown busy time has a reason, whichever reading lacks it.
func TestFillSaysWhy(t *testing.T) {
	whole := edge(time.Second, 0, 0, time.Second)
	blind := Processor{At: 2 * time.Second, busy: fact.Unknown[time.Duration]("no such clock")}
	for name, c := range map[string]struct {
		open, shut Processor
		reason     string
	}{
		"open":      {blind, whole, "no such clock"},
		"shut":      {whole, blind, "no such clock"},
		"no window": {whole, whole, "there was no window"},
	} {
		var out model.EndReport
		Fill(&out, c.open, c.shut)
		must.True(t, !out.SystemBusy.IsKnown() && out.SystemBusy.Reason() == c.reason, "%s: %v cores were busy because %q, want unknown because %q", name, out.SystemBusy, out.SystemBusy.Reason(), c.reason)
	}
}

func TestSample(t *testing.T) {
	prev, now := edge(time.Second, time.Second, 0, 0), edge(3*time.Second, 2*time.Second, 4*time.Second, 0)
	got := now.Sample(prev, model.Near, 2*time.Second)
	must.Equal(t, got, model.Sample{Host: model.Near, Metric: model.CPU, Value: 2.5, Start: time.Second, Length: 2 * time.Second, Omitted: true}, "got")
	must.True(t, !now.Sample(prev, model.Near, time.Second).Omitted, "the first interval of the window is omitted")
}

// TestRead reads the real clocks: work between two readings shows in their difference.
func TestRead(t *testing.T) {
	_, err := sockio.ProcessCPU()
	must.SkipIf(t, errors.Is(err, errors.ErrUnsupported), "this system has no clock of processor time: %v", err)
	start := time.Now()
	open := ReadEdge(time.Since(start))
	for x := 1.0; Read(0).process.Total()-open.process.Total() < 20*time.Millisecond; {
		x = math.Sqrt(x + 1)
		must.Need(t, time.Since(start) <= time.Minute, "a minute of work is less than 20 ms of processor time")
	}
	var out model.EndReport
	Fill(&out, open, ReadEdge(time.Since(start)))
	used := out.CPUUser + out.CPUSystem
	must.True(t, used >= 20*time.Millisecond && out.CPUWindow > 0, "used %v in %v", used, out.CPUWindow)
	must.True(t, out.SystemBusy.IsKnown() || out.SystemBusy.Reason() != "", "busy cores are unknown for no reason")
}

// TestNextInterval: a sampler that wakes up late does not produce a very short interval.
func TestNextInterval(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		state         State
		planned, want time.Duration
	}{
		{Measuring, 20 * ms, 120 * ms},
		{Measuring, 121 * ms, 220 * ms},
		{Measuring, 209 * ms, 220 * ms},
		{Measuring, 211 * ms, 320 * ms}, // and not 9 ms on
		{Measuring, 480 * ms, 500 * ms}, // the window ends
		{Warming, 0, 20 * ms},
	} {
		p := Part{State: c.state, Spec: model.Flow{Interval: 100 * ms, Duration: 480 * ms, Omit: 20 * ms}}
		if c.state == Measuring {
			p.Open.At = 20 * ms
		}
		must.Equal(t, p.next(c.planned), c.want, "next after %v", c.planned)
	}
}

// TestFirstByteIsAwaited: a short TCP window without data begins with the first byte, and
// closes if none arrives.
func TestFirstByteIsAwaited(t *testing.T) {
	const ms = time.Millisecond
	for first, want := range map[time.Duration][2]time.Duration{
		0: {0, 400 * ms}, 1200 * ms: {1200 * ms, 1600 * ms}, time.Hour: {0, 3400 * ms},
	} {
		at := time.Duration(0)
		p := Part{Role: model.Receiver, Direction: model.To, Spec: model.Flow{Interval: 200 * ms, Duration: 400 * ms}, Count: func(r *Reading) {
			if r.At >= first {
				r.Bytes = 1 + int64(r.At)
			}
		}}
		p.Begin()
		for p.State != Done {
			at = p.next(at)
			for _, s := range p.step(at, model.Near, nil) {
				late := first > 0 && s.Start >= 400*ms && (p.Open.At == 0 || s.Start < p.Open.At)
				must.Equal(t, s.Omitted, late, "first byte at %v: sample at %v", first, s.Start)
			}
		}
		must.Equal(t, [2]time.Duration{p.Open.At, p.Shut.At}, want, "first byte at %v", first)
	}
}
