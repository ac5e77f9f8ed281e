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

// share returns the share of sessions for which called returns true, using all cores.
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

// called reports whether the candidate got a verdict with a direction.
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

// A rule without any verdicts would pass the tests above: section 5.3 finds 94 % of the gains
// of 5 % within 20 blocks.
func TestSlowSequentialPower(t *testing.T) {
	const sessions = 800
	rate := share(sessions, func(seed uint64) bool {
		r := simulate(t, seed, math.Log(1.05), plan.Request{Null: plan.NullNone})
		return called(r) && r.Verdicts[0].Outcome == model.Better
	})
	t.Logf("a gain of 5 %% is found in %.1f %% of %d sessions", 100*rate, sessions)
	must.True(t, rate >= 0.85, "power %.3f is below 0.85", rate)
}

// The check of the baseline against itself rarely makes a faultless session untrustworthy
// (section 5.4: 1 in 100 for both sides together), even where the first run of each block is
// slower.
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
	found := share(slowSessions/4, func(seed uint64) bool { return called(positioned(t, seed, math.Log(1.1), 0.08, plan.Request{})) })
	t.Logf("a gain of 10 %% is found in %.1f %%", 100*found)
	must.True(t, !(found < 0.80), "a gain of 10 %% is found in %.3f of the sessions", found)
}

// positioned is simulate over a path that slows the first run of each block by the given share.
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

// several runs a whole plan of probes beside a load, with a separate path for each metric:
// independent noise gives the most false verdicts. gains holds the candidate's gains, in logs,
// positive good.
func several(t *testing.T, seed uint64, o plan.Request, gains map[model.Metric]float64) Result {
	o.Seed, o.Objective = seed, model.Goodput
	o.Settings = []model.Setting{{Name: "baseline"}, {Name: "candidate"}}
	o.Flow = model.Flow{Engine: "loaded", Direction: model.To, Duration: 30 * time.Second}
	p, err := plan.New(o)
	if err != nil {
		t.Error(err)
		return Result{}
	}
	runs := runsOf(p, len(p.Order), func(string, int, int) float64 { return 1 })
	for i := range runs {
		runs[i].Values = nil
	}
	for m, metric := range []model.Metric{model.Goodput, model.LatencyP50, model.LatencyP99,
		model.RetransmitRatio, model.CPUPerGbitNear, model.CPUPerGbitFar} {
		rng := rand.New(rand.NewPCG(seed, 100+uint64(m)))
		line := newPath(rng)
		for i := range runs {
			gain := 0.0
			if runs[i].Setting == "candidate" {
				gain = gains[metric]
			}
			var v float64
			switch metric {
			case model.Goodput:
				v = line.run(gain)
			case model.RetransmitRatio: // bursts, and none in many a run
				v = max(0, 0.001+0.004*rng.NormFloat64()-gain)
			case model.LatencyP99: // tails are noisier
				v = line.run(-gain) * math.Exp(0.10*rng.NormFloat64())
			default:
				v = line.run(-gain)
			}
			runs[i].Values = append(runs[i].Values, model.Value{Direction: model.To, Metric: metric, Value: v})
		}
	}
	return Analyse(p, runs)
}

// falseClaim reports whether a verdict says better, worse or harm.
func falseClaim(r Result) bool {
	if called(r) {
		return true
	}
	for _, v := range r.Verdicts {
		if v.Guard != nil && v.Guard.State == model.GuardViolated {
			return true
		}
	}
	return false
}

// claimAlone reports whether any metric would have a verdict if it were the only one.
func claimAlone(r Result) bool {
	for _, v := range r.Verdicts {
		if v.Evidence != nil && *v.Evidence >= 40 {
			return true
		}
		low, high := float64(v.Interval.Low), float64(v.Interval.High)
		if v.Evidence == nil && (low > 0 || high < 0) {
			return true
		}
	}
	return false
}

// Six metrics and five guards in sessions without a difference: at most one session in twenty
// makes a false claim. The metrics on their own would make more, so the simulation can detect a
// missing correction.
func TestSlowSeveralMetrics(t *testing.T) {
	for name, o := range map[string]plan.Request{
		"sequential":        {Null: plan.NullNone},
		"fixed, 12 blocks":  {Null: plan.NullNone, Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 12}},
		"fixed, as written": {Plan: model.Plan{Mode: model.FixedBlocks, MaxBlocks: 8}},
	} {
		alone := make([]bool, slowSessions)
		rate := share(slowSessions, func(seed uint64) bool {
			r := several(t, seed, o, nil)
			alone[seed] = claimAlone(r)
			return falseClaim(r)
		})
		uncorrected := 0
		for _, a := range alone {
			if a {
				uncorrected++
			}
		}
		without := float64(uncorrected) / slowSessions
		t.Logf("%s: %.2f %% of %d sessions without a difference make a false claim, %.2f %% without the correction",
			name, 100*rate, slowSessions, 100*without)
		must.True(t, rate <= 0.05, "%s: %.4f of the sessions make a false claim, more than 0.05", name, rate)
		must.True(t, without >= 0.07, "%s: %.4f without the correction: the simulation would not notice that it is gone", name, without)
	}
}

// The deciding metric loses no power to the other metrics: it still finds at least 85 % of the
// gains of 5 % within 20 blocks, as in TestSlowSequentialPower.
func TestSlowSeveralMetricsPower(t *testing.T) {
	const sessions = 800
	rate := share(sessions, func(seed uint64) bool {
		r := several(t, seed, plan.Request{Null: plan.NullNone}, map[model.Metric]float64{model.Goodput: math.Log(1.05)})
		return r.Verdicts[0].Outcome == model.Better
	})
	t.Logf("a gain of 5 %% is found in %.1f %% of %d sessions with six metrics", 100*rate, sessions)
	must.True(t, rate >= 0.85, "power %.3f is below 0.85", rate)
}

// Guards pass a setting without harm, and refuse one that doubles the latency under load. For
// harm of exactly the margin, a guard rarely reports that it holds or that it is violated: it
// stays open, which refuses nothing once the data rule out three margins (statistics.md section
// 6.5).
func TestSlowGuards(t *testing.T) {
	const sessions = 800
	for _, c := range []struct {
		name                  string
		harm                  float64
		passes, holds, refuse [2]float64 // least and most
	}{
		{"no harm", 0, [2]float64{0.95, 1}, [2]float64{0.90, 1}, [2]float64{0, 0}},
		{"harm of the margin", math.Log(1.5), [2]float64{0, 1}, [2]float64{0, 0.05}, [2]float64{0, 0.05}},
		{"twice the latency", math.Ln2, [2]float64{0, 0}, [2]float64{0, 0}, [2]float64{0.80, 1}},
		{"three times the latency", math.Log(3), [2]float64{0, 0}, [2]float64{0, 0}, [2]float64{1, 1}},
	} {
		states := make([]model.GuardState, sessions)
		passes := share(sessions, func(seed uint64) bool {
			r := several(t, seed, plan.Request{Null: plan.NullNone}, map[model.Metric]float64{
				model.Goodput: math.Log(1.1), model.LatencyP99: -c.harm})
			states[seed] = verdictOfMetric(t, r, "candidate", model.LatencyP99).Guard.State
			return len(MayKeep(model.Goodput, r.Verdicts, "candidate").InTheWay()) == 0
		})
		for what, one := range map[string]struct {
			got    float64
			within [2]float64
		}{
			"passes": {passes, c.passes}, "holds": {portion(states, model.GuardHolds), c.holds}, "is refused": {portion(states, model.GuardViolated), c.refuse},
		} {
			t.Logf("%s: %s in %.1f %% of %d sessions", c.name, what, 100*one.got, sessions)
			must.True(t, one.got >= one.within[0] && one.got <= one.within[1], "%s: %s in %.3f, not within %v", c.name, what, one.got, one.within)
		}
	}
}

// portion returns the share of states that equal want.
func portion(states []model.GuardState, want model.GuardState) float64 {
	n := 0
	for _, s := range states {
		if s == want {
			n++
		}
	}
	return float64(n) / float64(len(states))
}
