package analysis

import (
	"math"
	"slices"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

// probed is a plan of probes beside a load: goodput decides, and latency, loss and
// CPU are guards.
func probed(o *plan.Request) {
	o.Flow.Engine = "loaded"
	o.Objective = model.Goodput
}

// withMetrics adds the values of the other metrics to runs: the candidate's factors, and its
// share of packets sent again.
func withMetrics(runs []model.Run, p99, cpu, again float64) []model.Run {
	for i := range runs {
		wobble := 1 + 0.02*math.Sin(float64(i)) // both settings alike
		v := map[model.Metric]float64{
			model.LatencyP50: 0.010 * wobble, model.LatencyP99: 0.020 * wobble,
			model.CPUPerGbitNear: 0.3 * wobble, model.CPUPerGbitFar: 0.4 * wobble, model.RetransmitRatio: 0.0001 * (wobble - 0.9),
		}
		if runs[i].Setting == "s1" {
			v[model.LatencyP99] *= p99
			v[model.CPUPerGbitFar] *= cpu
			v[model.RetransmitRatio] += again
		}
		for _, m := range slices.Sorted(mapsKeys(v)) {
			runs[i].Values = append(runs[i].Values, model.Value{Direction: model.To, Metric: m, Value: v[m]})
		}
	}
	return runs
}

func mapsKeys(m map[model.Metric]float64) func(func(model.Metric) bool) {
	return func(yield func(model.Metric) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func TestGuards(t *testing.T) {
	gain := map[string][]float64{"s1": {0.10, 0.11, 0.09, 0.105}}
	for mode, change := range map[string]func(*plan.Request){
		"sequential": probed, "fixed": func(o *plan.Request) { probed(o); fixed(20)(o) },
	} {
		p := newPlan(t, 2, change)
		for _, c := range []struct {
			name            string
			p99, cpu, again float64
			bad             []model.Metric
		}{
			{"harmless", 1, 1, 0, nil},
			{"within the margins", 1.2, 1.2, 0.001, nil},
			{"bloated", 3, 1, 0, []model.Metric{model.LatencyP99}},
			{"costly and lossy", 1, 2, 0.02, []model.Metric{model.RetransmitRatio, model.CPUPerGbitFar}},
		} {
			r := Analyse(p, withMetrics(runsOf(p, 24, steady(p, gain)), c.p99, c.cpu, c.again))
			v := r.Verdicts[0]
			must.Need(t, v.Metric == model.Goodput && v.Outcome == model.Better && v.Guard == nil, "%s, %s: %+v, want goodput to be better first", mode, c.name, v)
			var bad []model.Metric
			guards := 0
			for _, v := range r.Verdicts {
				if v.Guard == nil {
					continue
				}
				guards++
				if v.Guard.State == model.GuardViolated {
					bad = append(bad, v.Metric)
				} else if v.Guard.State != model.GuardHolds || v.Guard.MoreBlocks != 0 {
					t.Errorf("%s, %s: guard %s %s", mode, c.name, v.Metric, v.Guard.State)
				}
				must.True(t, v.Estimate <= 0.1, "%s, %s: harm is a gain of %v", mode, c.name, v.Estimate)
			}
			must.True(t, guards == 4 && slices.Equal(bad, c.bad), "%s, %s: %d guards, violated %v, want 4 and %v", mode, c.name, guards, bad, c.bad)
			got := MayKeep(model.Goodput, r.Verdicts, "s1").InTheWay()
			must.True(t, len(got) == len(c.bad), "%s, %s: refused by %d guards, want %d", mode, c.name, len(got), len(c.bad))
		}
		thin := Analyse(p, withMetrics(runsOf(p, p.NullBlocks+2, steady(p, gain)), 1, 1, 0))
		v := verdictOfMetric(t, thin, "s1", model.LatencyP99)
		must.True(t, v.Guard.State == model.GuardOpen && v.Guard.MoreBlocks >= 1, "%s, two blocks: %+v", mode, v.Guard)
		got := MayKeep(model.Goodput, thin.Verdicts, "s1").InTheWay()
		must.True(t, len(got) == 4, "%s, two blocks: %d guards in the way, want 4", mode, len(got))
	}
}

// A candidate that is better stays in the blocks until its guards have spoken, and
// one that is not better leaves.
func TestGuardsAreWaitedFor(t *testing.T) {
	p := newPlan(t, 2, func(o *plan.Request) {
		probed(o)
		o.Guards = []model.Guard{{Metric: model.LatencyP99, Margin: 0.5}}
	})
	done := func(gain float64) int {
		f := steady(p, map[string][]float64{"s1": {gain, gain * 1.01}})
		for n := 1; n <= 20; n++ {
			if Analyse(p, withMetrics(runsOf(p, p.NullBlocks+n, f), 1, 1, 0)).Done {
				return n
			}
		}
		return 0
	}
	better, worse := done(0.2), done(-0.2)
	must.True(t, worse == 6 && better > worse, "better after %d blocks, worse after %d; want more than 6, and 6", better, worse)
}

// An explicit guard without a readable value does not hold; a default guard without one does
// not count.
func TestGuardsWithoutValues(t *testing.T) {
	gain := map[string][]float64{"s1": {0.10, 0.11, 0.09, 0.105}}
	p := newPlan(t, 2, probed)
	r := Analyse(p, runsOf(p, 24, steady(p, gain)))
	must.True(t, len(r.Verdicts) == 1 && len(MayKeep(model.Goodput, r.Verdicts, "s1").InTheWay()) == 0 && r.Done, "defaults: %+v", r.Verdicts)
	for i := range p.Guards {
		p.Guards[i].Default = false
	}
	r = Analyse(p, runsOf(p, 24, steady(p, gain)))
	v := verdictOfMetric(t, r, "s1", model.LatencyP99)
	must.True(t, v.Guard.State == model.GuardUnmeasured, "asked for: %+v", v.Guard)
	got := MayKeep(model.Goodput, r.Verdicts, "s1").InTheWay()
	must.True(t, len(got) == 4, "refused by %d guards, want 4", len(got))
}

// Latency that falls is better, in requests and under load.
func TestLatencyDecides(t *testing.T) {
	for _, engine := range []string{"reqresp", "loaded"} {
		p := newPlan(t, 2, func(o *plan.Request) {
			o.Flow.Engine = engine
		})
		must.Need(t, p.Objective == model.LatencyP50, "%s decides on %s", engine, p.Objective)
		runs := runsOf(p, 24, steady(p, nil))
		for i := range runs {
			v := 0.010 * (1 + 0.03*math.Cos(float64(i)))
			if runs[i].Setting == "s1" {
				v /= 2
			}
			runs[i].Values = []model.Value{{Direction: model.To, Metric: model.LatencyP50, Value: v}}
		}
		r := Analyse(p, runs)
		v := r.Verdicts[0]
		must.True(t, v.Metric == model.LatencyP50 && v.Outcome == model.Better && !(math.Abs(v.Estimate-math.Ln2) > 0.05) && r.Done, "%s: half the latency is %s by %v, done %v", engine, v.Outcome, v.Estimate, r.Done)
	}
}

// Old plans name no metrics: goodput decides, and nothing is guarded.
func TestPlansOfBefore(t *testing.T) {
	p := newPlan(t, 2, nil)
	p.Objective, p.Guards = "", nil
	r := Analyse(p, withMetrics(runsOf(p, 24, steady(p, map[string][]float64{"s1": {0.2, 0.21}})), 5, 5, 0.5))
	v := r.Verdicts[0]
	must.True(t, v.Metric == model.Goodput && v.Outcome == model.Better && len(MayKeep(model.Goodput, r.Verdicts, "s1").InTheWay()) == 0, "%+v", v)
}
