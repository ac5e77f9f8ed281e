package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

// sine is the number of a session's runs on a path whose rate swings by 10 % up and down
// with the given period, from a phase that belongs to the seed. Runs of 10 s begin every
// 15 s and differ by 1 % for themselves; the candidate has a gain, a log ratio.
func sine(p model.Plan, period time.Duration, gain float64) rate {
	rng := rand.New(rand.NewPCG(p.Seed, 0x73696e65)) // "sine"
	const every, length, swing, spread = 15.0, 10.0, 0.10, 0.01
	phase, w, begin := 2*math.Pi*rng.Float64(), 2*math.Pi/period.Seconds(), 0.0
	return func(setting string, _, _ int) float64 {
		mean := (math.Cos(w*begin+phase) - math.Cos(w*(begin+length)+phase)) / (w * length) // of the sine over the run
		begin += every
		y := math.Log(1e9*(1+swing*mean)) + spread*rng.NormFloat64()
		if setting == "s1" {
			y += gain
		}
		return math.Exp(y)
	}
}

// swung is what a whole session of two settings finds within 20 blocks.
func swung(t *testing.T, seed uint64, period time.Duration, gain float64) Result {
	p := newPlan(t, 2, func(o *plan.Request) { o.Seed, o.MaxBlocks = seed, 20 })
	return Analyse(p, runsOf(p, len(p.Order), sine(p, period, gain)))
}

// TestSlowSine: a rate that swings slowly by 10 % gives a false verdict in at most 5 % of
// 40 sessions for each period, and hides a true 5 % in at most a fifth of them. The same
// runs, all of the one setting before all of the other, would be told apart wrongly most
// of the time: the swing is large enough to fool. At 2 min it is not slow any more: the
// two runs of a block are an eighth of a period apart, so that blocks differ by much
// and fewer gains are found (17 of 40), but no more false ones.
func TestSlowSine(t *testing.T) {
	t.Parallel()
	const sessions = 40
	decided := func(r Result, as ...model.Outcome) bool {
		return slices.ContainsFunc(r.Verdicts, func(v model.Verdict) bool {
			return !v.IsTwin && v.Metric == model.Goodput && slices.Contains(as, v.Outcome)
		})
	}
	for _, period := range []time.Duration{2 * time.Minute, 10 * time.Minute, 30 * time.Minute, 2 * time.Hour} {
		t.Run(fmt.Sprint(period), func(t *testing.T) {
			t.Parallel()
			wrong, found, fooled := 0, 0, 0
			for seed := range uint64(sessions) {
				if decided(swung(t, seed, period, 0), model.Better, model.Worse) {
					wrong++
				}
				if decided(swung(t, seed, period, math.Log(1.05)), model.Better) {
					found++
				}
				p := newPlan(t, 2, func(o *plan.Request) { o.Seed = seed })
				y := sine(p, period, 0)
				var sums [2]float64
				for i := range 40 {
					sums[i/20] += math.Log(y("s0", 0, 0)) / 20
				}
				if math.Abs(sums[1]-sums[0]) > 2*math.Sqrt(2.0/20)*0.01 { // what 1 % for each run allows
					fooled++
				}
			}
			t.Logf("false verdicts %d, true 5 %% found %d, batches in sequence wrong %d of %d", wrong, found, fooled, sessions)
			must.True(t, wrong <= sessions*5/100, "%d false verdicts in %d sessions", wrong, sessions)
			must.True(t, period < 10*time.Minute || found >= sessions*80/100, "a true 5 %% is found in %d of %d sessions", found, sessions)
			must.True(t, period < 10*time.Minute || fooled >= sessions/2,
				"only %d of %d sessions in sequence are fooled: this swing shows nothing", fooled, sessions)
		})
	}
}
