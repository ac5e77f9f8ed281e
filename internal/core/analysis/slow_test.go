//go:build slow

package analysis

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/must"
)

// path is the noise model of statistics.md section 13: slow drift from run to
// run, an error per run, and correlated seconds inside it, in log rate.
type path struct {
	rng   *rand.Rand
	drift float64
}

func newPath(rng *rand.Rand) *path { return &path{rng: rng, drift: 0.05 * rng.NormFloat64()} }

// run returns the rate of the next run of 30 s with the given gain.
func (p *path) run(gain float64) float64 {
	const phi, stay, seconds = 0.7, 0.9, 30
	p.drift = stay*p.drift + 0.05*math.Sqrt(1-stay*stay)*p.rng.NormFloat64()
	level, w, sum := p.drift+0.015*p.rng.NormFloat64()+gain, 0.05*p.rng.NormFloat64(), 0.0
	for range seconds {
		sum += math.Exp(level + w)
		w = phi*w + 0.05*math.Sqrt(1-phi*phi)*p.rng.NormFloat64()
	}
	return 1e9 * sum / seconds
}

const slowSessions = 4000

// share returns the share of sessions for which called is true, on all cores.
func share(sessions int, called func(seed uint64) bool) float64 {
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	counts := make([]int, workers)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < sessions; i += workers {
				if called(uint64(i)) {
					counts[w]++
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, c := range counts {
		total += c
	}
	return float64(total) / float64(sessions)
}

func demandErrorRate(t *testing.T, what string, rate float64) {
	t.Helper()
	t.Logf("%s: %.2f %% of %d sessions without a difference", what, 100*rate, slowSessions)
	must.True(t, rate >= 0 && rate <= 0.06, "%s: error rate %.4f is not within [0, 0.06]", what, rate)
}

// simulate runs a whole plan of two settings over one path.
func simulate(t *testing.T, seed uint64, gain float64, o plan.Request) Result {
	return positioned(t, seed, gain, 0, o)
}

// called reports whether the candidate got a verdict of a direction.
func called(r Result) bool {
	return slices.ContainsFunc(r.Verdicts, func(v model.Verdict) bool {
		return !v.IsTwin && (v.Outcome == model.Better || v.Outcome == model.Worse)
	})
}

// Row "block differences, random blocks" of section 13, at 5 and 10 blocks.
func TestSlowFixedErrorRate(t *testing.T) {
	for _, blocks := range []int{5, 10} {
		rate := share(slowSessions, func(seed uint64) bool {
			rng := rand.New(rand.NewPCG(seed, uint64(blocks)))
			line, d := newPath(rng), make([]float64, blocks)
			for i := range d {
				sign := 1.0
				if rng.Uint64()&1 == 1 {
					sign = -1
				}
				first := line.run(0)
				d[i] = sign * math.Log(line.run(0)/first)
			}
			r := stats.TInterval(d, 0.95)
			return r.Low > 0 || r.High < 0
		})
		demandErrorRate(t, "t interval of block differences", rate)
		must.True(t, rate >= 0.03, "%d blocks: %.4f is far below the nominal 5 %%: the simulation does not reach the test", blocks, rate)
	}
}

// The sequential verdict of section 5.3, as a whole session gives it.
func TestSlowSequentialErrorRate(t *testing.T) {
	rate := share(slowSessions, func(seed uint64) bool { return called(simulate(t, seed, 0, plan.Request{Null: plan.NullNone})) })
	demandErrorRate(t, "sequential verdict", rate)
}

// The whole of a session of a fixed plan, baseline pairs and all.
func TestSlowFixedVerdictErrorRate(t *testing.T) {
	rate := share(slowSessions, func(seed uint64) bool {
		return called(simulate(t, seed, 0, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 10}}))
	})
	demandErrorRate(t, "fixed verdict", rate)
}

// A rule that never calls anything would pass the tests above: section 5.3 finds
// 94 % of the gains of 5 % within 20 blocks.
func TestSlowSequentialPower(t *testing.T) {
	const sessions = 800
	rate := share(sessions, func(seed uint64) bool {
		r := simulate(t, seed, math.Log(1.05), plan.Request{Null: plan.NullNone})
		return called(r) && r.Verdicts[0].Outcome == model.Better
	})
	t.Logf("a gain of 5 %% is found in %.1f %% of %d sessions", 100*rate, sessions)
	must.True(t, rate >= 0.85, "power %.3f is below 0.85", rate)
}

// How often the check of the baseline against itself makes a session without
// fault untrustworthy (section 5.4: 1 in 100 for both sides together), also where
// the first run of each block is slower.
func TestSlowTwinRarelyDistrusts(t *testing.T) {
	for _, first := range []float64{0, 0.08} {
		rate := share(slowSessions, func(seed uint64) bool {
			return positioned(t, seed, 0, first, plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 12}, Null: plan.NullTwin}).Untrustworthy
		})
		t.Logf("first run %.0f %% slower: untrustworthy in %.2f %%", 100*first, 100*rate)
		must.True(t, rate <= 0.015, "first run %.0f %% slower: %.4f of good sessions are distrusted", 100*first, rate)
	}
}

// A position effect of 8 % gives no false verdict at any number of blocks, and
// hides no gain (sections 4.3, 5.4).
func TestSlowPositionEffect(t *testing.T) {
	for _, blocks := range []int{3, 4, 5, 6, 8, 10} {
		o := plan.Request{Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: blocks}}
		rate := share(slowSessions, func(seed uint64) bool { return called(positioned(t, seed, 0, 0.08, o)) })
		demandErrorRate(t, "fixed plan, first run 8 % slower", rate)
		must.True(t, blocks >= stats.RankBlocks || rate <= 0, "%d blocks: a verdict", blocks)
	}
	demandErrorRate(t, "sequential, first run 8 % slower",
		share(slowSessions, func(seed uint64) bool { return called(positioned(t, seed, 0, 0.08, plan.Request{})) }))
	found := share(slowSessions/4, func(seed uint64) bool {
		return called(positioned(t, seed, math.Log(1.1), 0.08, plan.Request{}))
	})
	t.Logf("a gain of 10 %% is found in %.1f %%", 100*found)
	must.True(t, !(found < 0.80),
		"a gain of 10 %% is found in %.3f of the sessions", found)
}

// positioned is simulate over a path where the first run of each block is slower
// by the given share.
func positioned(t *testing.T, seed uint64, gain, first float64, o plan.Request) Result {
	o.Seed = seed
	o.Settings = []model.Setting{{Name: "baseline"}, {Name: "candidate"}}
	o.Flow = model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: 30 * time.Second}
	p, err := plan.New(o)
	if err != nil {
		t.Error(err)
		return Result{}
	}
	line := newPath(rand.New(rand.NewPCG(seed, 14)))
	return Analyse(p, runsOf(p, len(p.Order), func(setting string, _, position int) float64 {
		g := 0.0
		if setting == "candidate" {
			g = gain
		}
		if position == 1 {
			g += math.Log1p(-first)
		}
		return line.run(g)
	}))
}
