package analysis

import (
	"math"
	"math/rand/v2"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/must"
)

// watchedPlan compares s1 with s0 to the far end, and watches it from there.
func watchedPlan(t *testing.T, guards ...model.Guard) model.Plan {
	t.Helper()
	return newPlan(t, 2, func(o *plan.Request) {
		o.Null, o.MaxBlocks, o.Guards = plan.NullNone, 12, append([]model.Guard{}, guards...)
		o.Directions, o.Watched = []model.Direction{model.To}, []model.Direction{model.From}
	})
}

// watched plays a plan over a path of that noise: s1 gains so much to the far end, and
// from there, and takes three times the CPU, which a guard sees where the plan has one.
func watched(p model.Plan, seed uint64, noise, gain, other float64) Result {
	rng := rand.New(rand.NewPCG(seed, 9))
	var runs []model.Run
	for block := range p.Order {
		for _, name := range p.Order[block] {
			for _, d := range p.Ways(block + 1) {
				r := model.Run{Number: len(runs) + 1, Block: block + 1, Attempt: 1, Setting: name, State: model.RunValid, Flow: p.Flow}
				r.Flow.Direction = d
				is := map[model.Direction]float64{model.To: gain, model.From: other}[d]
				cpu := 0.03
				if name == p.Baseline {
					is, cpu = 0, 0.01
				}
				r.Values = []model.Value{
					{Metric: model.Goodput, Direction: d, Value: 1e8 * math.Exp(is+noise*rng.NormFloat64())},
					{Metric: model.RTT, Direction: d, Value: 0.01 * math.Exp(0.5*rng.NormFloat64())},
					{Metric: model.CPUPerGbitNear, Direction: d, Value: cpu * (1 + 0.01*float64(block))},
				}
				runs = append(runs, r)
			}
		}
		if r := Analyse(p, runs); r.Done {
			return r
		}
	}
	return Analyse(p, runs)
}

// A direction that is watched is measured in the first blocks only, and says whether the
// setting does harm there; the verdict comes from the other one, no later for that.
func TestWatchedDirection(t *testing.T) {
	p := watchedPlan(t)
	n := p.RunsIn(1)
	must.Need(t, n == 4 && p.RunsIn(6) == 2 && p.Runs() == 5*4+7*2, "%d runs in block 1, %d in block 6, %d in all", n, p.RunsIn(6), p.Runs())
	for name, c := range map[string]struct {
		other float64
		state model.GuardState
		keep  bool
	}{"no harm": {0, model.GuardHolds, true}, "harm": {-0.7, model.GuardViolated, false}} {
		r := watched(p, 3, 0.01, math.Log(2), c.other)
		must.True(t, r.Done && r.Blocks == stats.RankBlocks, "%s: done %v after %d blocks", name, r.Done, r.Blocks)
		for _, v := range r.Verdicts {
			decides := v.Direction == model.To
			must.True(t, v.Metric != model.Goodput || p.DecidedBy(&v) == decides && (decides || v.Guard.State == c.state), "%s: %s %+v", name, v.Direction, v.Guard)
		}
		k := MayKeep(model.Goodput, r.Verdicts, "s1")
		must.True(t, k.May() == c.keep && k.Ask() == c.keep, "%s: %+v", name, k)
	}
}

// A guard that scatters holds up no large effect: its session ends with the verdict, and
// whether it may be kept is for the person to say. A small effect waits for its guard.
func TestOpenGuardHoldsUpNoLargeEffect(t *testing.T) {
	p := watchedPlan(t, model.Guard{Metric: model.RTT, Margin: 10})
	for gain, waits := range map[float64]bool{math.Log(4): false, math.Log(1.2): true} {
		ended, open := 0, 0
		for seed := range uint64(50) {
			r := watched(p, seed, 0.01, gain, 0)
			for _, v := range r.Verdicts {
				if v.Metric == model.RTT && v.Direction == model.To && v.Guard.State == model.GuardOpen && !v.Guard.Tolerable {
					open++
					if r.Blocks < 12 {
						ended++
					}
					k := MayKeep(model.Goodput, r.Verdicts, "s1")
					must.True(t, !k.May(), "gain %.1f, seed %d: kept without the person", gain, seed)
				}
			}
		}
		must.True(t, open >= 3 && (!waits || ended <= 0) && (waits || ended >= open),
			"gain %.1f: of %d sessions with an open guard %d ended early", gain, open, ended)
	}
}

// What the person may not decide either, since the data say harm, is decided by more data.
func TestHarmHoldsUpALargeEffect(t *testing.T) {
	p := watchedPlan(t, model.Guard{Metric: model.CPUPerGbitNear, Margin: 50})
	r := watched(p, 1, 0.01, math.Log(4), 0)
	k := MayKeep(model.Goodput, r.Verdicts, "s1")
	must.True(t, r.Done && r.Blocks > stats.RankBlocks && len(k.Harms) == 1,
		"done %v after %d blocks: %+v", r.Done, r.Blocks, k)
}

// Without a difference, one session in twenty at most says that there is one, and no more
// than that claim harm in the direction that is watched.
func TestWatchedFalsePositives(t *testing.T) {
	const sessions = 1000
	p := watchedPlan(t)
	said, harm, covered := 0, 0, 0
	for seed := range uint64(sessions) {
		r := watched(p, seed, 0.04, 0, 0)
		for _, v := range r.Verdicts {
			switch {
			case p.DecidedBy(&v):
				if v.Outcome == model.Better || v.Outcome == model.Worse {
					said++
				}
				if v.Interval.Low <= 0 && v.Interval.High >= 0 {
					covered++
				}
			case v.Guard != nil && v.Guard.State == model.GuardViolated:
				harm++
			}
		}
	}
	t.Logf("of %d sessions without a difference %d say one, %d claim harm, %d intervals hold 0", sessions, said, harm, covered)
	must.True(t, said <= sessions/20 && harm <= sessions/20 && covered >= sessions*19/20, "more than 5 %%")
}
