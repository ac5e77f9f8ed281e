//go:build slow

package analysis

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

// several runs a whole plan of probes beside a load, over a path of its own for
// each metric: noise that has nothing to do with that of the others gives the most
// false verdicts. gains are those of the candidate, in logs, positive good.
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

// falseClaim reports whether anything is better, worse, or shown to do harm.
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

// claimAlone reports whether any metric would have a verdict if it were the only
// one.
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

// Six metrics and five guards in sessions without any difference: at most one in
// twenty makes any false claim. Each metric on its own would make more, which says
// that the simulation can tell a missing correction.
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

// What decides is found as before there were other metrics: at least 85 % of the
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

// Guards speak: a setting without harm is let pass, one that doubles the latency under load
// is not. Of harm of exactly the margin a guard hardly ever says that it holds, nor that it
// is violated: it stays open, which refuses nothing while three margins are ruled out
// (statistics.md section 6.5).
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

// portion is the share of states that are want.
func portion(states []model.GuardState, want model.GuardState) float64 {
	n := 0
	for _, s := range states {
		if s == want {
			n++
		}
	}
	return float64(n) / float64(len(states))
}
