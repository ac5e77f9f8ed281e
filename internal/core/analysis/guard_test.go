package analysis

import (
	"math"
	"slices"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/probes"
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

// Below a millisecond three times the latency is no harm, unless the user asked for the guard.
func TestGuardOfShortLatency(t *testing.T) {
	for state, asked := range map[model.GuardState]bool{model.GuardHolds: false, model.GuardViolated: true} {
		p := newPlan(t, 2, probed)
		for i := range p.Guards {
			p.Guards[i].Default = !asked
		}
		runs := withMetrics(runsOf(p, 24, steady(p, map[string][]float64{"s1": {0.10, 0.11, 0.09, 0.105}})), 3, 1, 0)
		for _, r := range runs {
			for i := range r.Values {
				if r.Values[i].Metric == model.LatencyP99 {
					r.Values[i].Value /= 100 // 0.2 and 0.6 ms
				}
			}
		}
		r := Analyse(p, runs)
		v := verdictOfMetric(t, r, "s1", model.LatencyP99)
		must.True(t, v.Guard.State == state && v.Guard.Negligible == !asked && v.Estimate < -1, "asked for %v: %+v, estimate %.2f", asked, v.Guard, v.Estimate)
		must.True(t, MayKeep(model.Goodput, r.Verdicts, "s1").May() == !asked, "asked for %v", asked)
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
		p := newPlan(t, 2, func(o *plan.Request) { o.Flow.Engine = engine })
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

// starved returns the runs of n blocks of a plan whose candidate carries six times as much as a
// window-limited baseline, at three times its latency. equal is the factor of that latency at
// the baseline's rate, or 0 for blocks without such a run.
func starved(t *testing.T, p model.Plan, n int, equal float64) []model.Run {
	t.Helper()
	runs := withMetrics(runsOf(p, n, steady(p, map[string][]float64{"s1": {1.80, 1.79, 1.81, 1.80}})), 3, 1, 0)
	for i := range runs {
		runs[i].Flow = probes.Over(model.Flow{Engine: bulk.Name, Direction: model.To})
	}
	var out []model.Run
	for i, r := range runs {
		out = append(out, r)
		if end := i+1 == len(runs) || runs[i+1].Block != r.Block; !end || equal == 0 {
			continue
		}
		var block []model.Run
		for _, o := range runs {
			if o.Block == r.Block {
				block = append(block, o)
			}
		}
		for _, need := range AtEqualLoad(p.Guards, p.Baseline, block, nil) {
			e := r
			e.Setting, e.State = need.Setting, model.RunEqualLoad
			e.Values = []model.Value{{Direction: need.Direction, Metric: model.LatencyP99, Value: 0.020 * equal}}
			out = append(out, e)
		}
	}
	for i := range out {
		out[i].Number = i + 1
	}
	return out
}

// TestGuardAtEqualLoad demands that a guard does not refuse a setting for the latency of a full
// path, but does refuse it for what other traffic feels at today's load.
func TestGuardAtEqualLoad(t *testing.T) {
	for mode, change := range map[string]func(*plan.Request){
		"sequential": probed, "fixed": func(o *plan.Request) { probed(o); fixed(20)(o) },
	} {
		p := newPlan(t, 2, change)
		for name, c := range map[string]struct {
			equal  float64
			state  model.GuardState
			blocks bool // held at equal load
		}{
			"as before at equal load":       {1, model.GuardHolds, true},
			"worse at equal load, too":      {3, model.GuardViolated, true},
			"nothing measured at that load": {0, model.GuardUnmeasured, false},
		} {
			r := Analyse(p, starved(t, p, 24, c.equal))
			v := verdictOfMetric(t, r, "s1", model.Goodput)
			must.Need(t, v.Outcome == model.Better, "%s, %s: goodput is %s", mode, name, v.Outcome)
			g := verdictOfMetric(t, r, "s1", model.LatencyP99).Guard
			must.True(t, g.State == c.state && (g.EqualLoad > 0) == c.blocks,
				"%s, %s: guard %s, at equal load in %d blocks; want %s", mode, name, g.State, g.EqualLoad, c.state)
			must.Equal(t, len(MayKeep(model.Goodput, r.Verdicts, "s1").InTheWay()) > 0, c.state == model.GuardViolated, "%s, %s: refused", mode, name)
		}
	}
}

// TestEqualLoadIsAskedForWhereItMatters lists the runs that a block needs.
func TestEqualLoadIsAskedForWhereItMatters(t *testing.T) {
	guards := []model.Guard{{Metric: model.LatencyP99, Margin: 50}}
	run := func(setting string, mbit, latency float64, f model.Flow) model.Run {
		f.Direction = model.To
		return model.Run{Setting: setting, State: model.RunValid, Flow: f, Values: []model.Value{
			{Direction: model.To, Metric: model.Goodput, Value: mbit * 1e6}, {Direction: model.To, Metric: model.LatencyP99, Value: latency},
		}}
	}
	tcp := probes.Over(model.Flow{Engine: bulk.Name})
	udp := probes.Over(model.Flow{Engine: "udpflow"})
	base := run("current", 14, 0.010, tcp)
	invalid := run("s1", 94, 0.090, tcp)
	invalid.State = model.RunInvalid
	for name, c := range map[string]struct {
		runs   []model.Run
		guards []model.Guard
		want   int
	}{
		"fills the path and its queue":  {[]model.Run{base, run("s1", 94, 0.090, tcp)}, guards, 1},
		"each candidate by itself":      {[]model.Run{run("s1", 94, 0.090, tcp), base, run("s2", 60, 0.080, tcp)}, guards, 2},
		"latency within the margin":     {[]model.Run{base, run("s1", 94, 0.014, tcp)}, guards, 0},
		"worse at the load of today":    {[]model.Run{base, run("s1", 14.5, 0.090, tcp)}, guards, 0},
		"traffic that cannot be paced":  {[]model.Run{run("current", 14, 0.010, udp), run("s1", 94, 0.090, udp)}, guards, 0},
		"no guard that follows a load":  {[]model.Run{base, run("s1", 94, 0.090, tcp)}, []model.Guard{{Metric: model.RetransmitRatio, Margin: 0.005}}, 0},
		"a candidate without valid run": {[]model.Run{base, invalid}, guards, 0},
		"no baseline":                   {[]model.Run{run("s1", 94, 0.090, tcp)}, guards, 0},
	} {
		got := AtEqualLoad(c.guards, "current", c.runs, nil)
		must.Equal(t, len(got), c.want, "%s: %+v, want %d", name, got, c.want)
		for _, p := range got {
			must.True(t, p.Rate == 14e6 && p.Direction == model.To, "%s: %+v, want 14 Mbit/s to the far end", name, p)
		}
	}
	settled := func(string, model.Direction, model.Metric) bool { return true }
	got := AtEqualLoad(guards, "current", []model.Run{base, run("s1", 94, 0.090, tcp)}, settled)
	must.True(t, len(got) == 0, "a guard that has spoken is asked again: %+v", got)
}

// TestOpenGuardThatIsTolerable demands that an undecided guard refuses a setting only until the
// data rule out harm of three margins.
func TestOpenGuardThatIsTolerable(t *testing.T) {
	p := newPlan(t, 2, probed)
	gain := map[string][]float64{"s1": {0.10, 0.11, 0.09, 0.105}}
	r := Analyse(p, withMetrics(runsOf(p, p.NullBlocks+12, steady(p, gain)), 1.5, 1, 0)) // exactly the margin: never decided
	g := verdictOfMetric(t, r, "s1", model.LatencyP99).Guard
	must.True(t, g.State == model.GuardOpen && g.Tolerable, "guard %s, tolerable %v", g.State, g.Tolerable)
	got := MayKeep(model.Goodput, r.Verdicts, "s1").InTheWay()
	must.True(t, len(got) == 0, "refused by %d guards", len(got))
}
