package analysis

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/must"
)

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
