package tune_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/tune"
	"linerate/internal/must"
)

// pilots are runs of 1 s and 2 s in intervals of 100 ms: slow start until ramp, then the
// rate with noise of its intervals and of whole runs.
func pilots(seed uint64, ramp time.Duration, within, between float64, runs int) tune.Pilots {
	rng := rand.New(rand.NewPCG(seed, 4))
	p := tune.Pilots{RTT: 20 * time.Millisecond, Samples: map[int][]model.Sample{}}
	began := time.Unix(0, 0)
	for n := 1; n <= runs; n++ {
		flow := model.Flow{Direction: model.To, Omit: time.Second, Duration: 2 * time.Second}
		r := model.Run{Number: n, Setting: "current", State: model.RunValid, Flow: flow, Started: began, Ended: began.Add(3500 * time.Millisecond)}
		level, sum := 1e8*math.Exp(between*rng.NormFloat64()), 0.0
		for at := time.Duration(0); at < 3*time.Second; at += 100 * time.Millisecond {
			v := level * math.Exp(within*rng.NormFloat64())
			if at < ramp {
				v *= float64(at+50*time.Millisecond) / float64(2*ramp)
			}
			if at >= flow.Omit {
				sum += v / 20
			}
			p.Samples[n] = append(p.Samples[n], model.Sample{Host: model.Far, Direction: model.To, Metric: model.Goodput, Start: at, Length: 100 * time.Millisecond, Value: v})
		}
		r.Values = []model.Value{{Metric: model.Goodput, Direction: model.To, Value: sum}}
		p.Runs = append(p.Runs, r)
	}
	return p
}

// Slow start that is seen is left out, with the interval in which the flow is steady; a run
// is as short as a large effect allows, and longer for a small one, the more it scatters.
func TestLengthFollowsTheEvidence(t *testing.T) {
	quiet := pilots(1, 400*time.Millisecond, 0.005, 0.002, 3)
	l := quiet.Fit(model.Goodput, math.Log(6))
	must.True(t, l.Omit == 500*time.Millisecond && l.Duration == 500*time.Millisecond, "quiet, large effect: %+v", l)
	noisy := pilots(1, 400*time.Millisecond, 0.1, 0.01, 6)
	large, small := noisy.Fit(model.Goodput, math.Log(6)), noisy.Fit(model.Goodput, math.Log(1.1))
	must.True(t, large.Duration <= 700*time.Millisecond && small.Duration >= 2*large.Duration && small.Duration <= 10*time.Second,
		"noisy: %v for 6 times, %v for 10 %%", large.Duration, small.Duration)
	if l := pilots(1, 4*time.Second, 0.3, 0.01, 2).Fit(model.Goodput, math.Log(6)); l.Omit != time.Second {
		t.Errorf("slow start without an end: %+v, where the pilots leave out 1 s", l)
	}
	far := quiet
	far.RTT = 200 * time.Millisecond
	if l := far.Fit(model.Goodput, math.Log(6)); l.Duration != 4*time.Second {
		t.Errorf("200 ms of round trip: %+v", l)
	}
	must.Equal(t, (tune.Pilots{}).Fit(model.Goodput, 1), (tune.Length{}), "no pilots")
}

// The result lists what a plateau turns down, with its effect, like all that was measured.
func TestPlateauTellsWhatItTurnsDown(t *testing.T) {
	w := bufferWorld(1, 2<<20)
	m := tune.New(options())
	play(t, w, m)
	told := map[string]tune.Fate{}
	for _, f := range m.Fates() {
		must.True(t, f.State != tune.Racing && f.State != tune.Waiting, "%s is %s", f.Setting.Name, f.State)
		told[f.Setting.Name] = f
	}
	worse := told["far.tcp.recv_buffer_max=256KiB"] // 4 of the 5 times that the link allows
	must.True(t, worse.State == tune.Harmful && worse.Blocks >= 3 && float64(worse.Gain) <= -0.1, "256 KiB: %+v", worse)
}
