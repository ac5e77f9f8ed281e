package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

func hasWarning(r Result, text string) bool {
	return slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, text) })
}

func TestPositionEffect(t *testing.T) {
	p := newPlan(t, 2, fixed(10))
	f := func(_ string, block, position int) float64 {
		return 1e9 * math.Pow(0.95, float64(position-1)) * (1 + 0.001*float64(block%3))
	}
	r := Analyse(p, runsOf(p, 14, f))
	h := r.Health[0]
	near(t, "position", h.Position, math.Log(0.95), 1e-6)
	near(t, "p", h.PositionP, math.Pow(2, -13), 1e-12)
	must.True(t, h.HasPosition() && hasWarning(r, "last run of a block") && h.SuggestABBA() == (math.Abs(h.Position) > h.S), "%+v, warnings %q", h, r.Warnings)
	must.True(t, !r.Untrustworthy && verdictOf(t, r, "s1").Outcome != model.Worse, "a position effect became a verdict: %+v", r.Verdicts)
}

func TestTrendOfTheBaseline(t *testing.T) {
	p := newPlan(t, 2, fixed(8))
	base := []float64{941.2, 902.5, 955.0, 921.4, 880.3, 910.6, 934.8, 899.9}
	pairless := newPlan(t, 2, func(o *plan.Request) { fixed(8)(o); o.Null = plan.NullNone })
	h := Analyse(pairless, runsOf(pairless, 8, func(_ string, block, _ int) float64 { return base[block-1] })).Health[0]
	near(t, "slope", h.Slope, -0.005899, 1e-6)
	near(t, "p", h.TrendP, 0.398760, 1e-6)
	must.True(t, !h.Drifting(), "the example drifts")
	r := Analyse(p, runsOf(p, 12, func(_ string, block, _ int) float64 { return 1e9 * math.Exp(-0.01*float64(block)) }))
	near(t, "slope", r.Health[0].Slope, -0.01, 1e-9)
	must.True(t, r.Health[0].Drifting() && hasWarning(r, "drifts by -1.00 % per block"), "%+v, warnings %q", r.Health[0], r.Warnings)
}

func TestCreditExhaustionTakesTheVerdicts(t *testing.T) {
	p := newPlan(t, 2, nil)
	jitter := []float64{0, .004, -.003, .002, -.005, .001, .003, -.002}
	credits := func(last int) rate {
		return func(setting string, block, position int) float64 {
			y := 1e9 * math.Exp(jitter[(3*block+position)%len(jitter)])
			if setting == "s1" {
				y *= 1.02
			}
			if block > last {
				y *= 0.5
			}
			return y
		}
	}
	steady := Analyse(p, runsOf(p, 14, credits(99)))
	must.Need(t, !steady.PathChanged && (!steady.Done || steady.Reason != "the path changed during the session"), "a steady path changed: %+v", steady.Health)
	r := Analyse(p, runsOf(p, 14, credits(7)))
	v := verdictOf(t, r, "s1")
	must.True(t, r.PathChanged && r.Done && v.Outcome == model.Undecided && v.Reason == "the path changed during the session",
		"path changed %v, done %v, %s (%s)", r.PathChanged, r.Done, v.Outcome, v.Reason)
	must.True(t, hasWarning(r, "fell by 50 %"), "warnings %q", r.Warnings)
	dip := func(setting string, block, position int) float64 {
		if block >= 7 && block <= 9 {
			return credits(0)(setting, block, position)
		}
		return credits(99)(setting, block, position)
	}
	must.True(t, !Analyse(p, runsOf(p, 14, dip)).PathChanged, "a passing dip was taken for a changed path")
}

func TestPlateauUsesBlocksWithAllLevels(t *testing.T) {
	rates := map[string][]float64{"128K": {4.71, 4.60, 4.85, 4.55, 4.68, 4.75}, "256K": {8.02, 7.85, 8.20, 7.90, 8.11, 7.95},
		"512K": {9.31, 9.05, 9.48, 9.22, 9.15, 9.35}, "1024K": {9.38, 9.20, 9.44, 9.18, 9.33, 9.29}}
	p := newPlan(t, 0, func(o *plan.Request) {
		fixed(8)(o)
		o.Factor, o.Null = "window", plan.NullNone
		for _, l := range [][2]string{{"1024K", "1048576"}, {"128K", "131072"}, {"512K", "524288"}, {"256K", "262144"}} {
			o.Settings = append(o.Settings, model.Setting{Name: l[0], Assignments: []model.Assignment{{Knob: "window", Value: l[1]}}})
		}
	})
	f := func(setting string, block, _ int) float64 { return 1e9 * rates[setting][(block-1)%6] }
	must.Len(t, Analyse(p, runsOf(p, 2, f)).Plateaus, 0, "a plateau of two blocks")
	r := Analyse(p, runsOf(p, 6, f))
	must.Need(t, len(r.Plateaus) == 1 && r.Plateaus[0].Decided && r.Plateaus[0].Level == "512K", "plateaus %+v, want 512K", r.Plateaus)
	noisy := func(setting string, block, position int) float64 {
		return f(setting, block, position) * (1 + 0.2*float64((block+position)%3))
	}
	u := Analyse(p, runsOf(p, 3, noisy)).Plateaus[0]
	must.True(t, !u.Decided && u.From != "" && u.To != "" && u.Reason != "", "%+v, want a range", u)
}

// Issue 10, item 2: the smallest good level was named among the levels alone, although
// what the host had was 57 % faster than all of them.
func TestSmallestGoodLevelIsHeldAgainstTheBaseline(t *testing.T) {
	plateauOf := func(t *testing.T, now float64, twin bool) []model.Plateau {
		p := newPlan(t, 0, func(o *plan.Request) {
			fixed(8)(o)
			o.Factor, o.Null = "window", plan.NullNone
			o.Settings = []model.Setting{{Name: "current"}}
			for _, l := range [][2]string{{"64K", "65536"}, {"1M", "1048576"}} {
				o.Settings = append(o.Settings, model.Setting{Name: l[0], Assignments: []model.Assignment{{Knob: "window", Value: l[1]}}})
			}
			if twin {
				o.Null = plan.NullTwin
			}
		})
		r := Analyse(p, runsOf(p, 8, func(setting string, block, position int) float64 {
			rate := map[string]float64{"current": now, "64K": 30e6, "1M": 470e6, p.Twin: now * 2}[setting]
			return rate * (1 + 0.004*float64((block+position)%3))
		}))
		must.Equal(t, r.Untrustworthy, twin, "untrustworthy")
		return r.Plateaus
	}
	for name, c := range map[string]struct {
		now   float64
		level string
		leave bool
	}{
		"faster than all": {1.57 * 470e6, "", true},
		"as fast":         {472e6, "1M", true},
		"a little slower": {451e6, "1M", false},
		"slower":          {60e6, "1M", false},
	} {
		t.Run(name, func(t *testing.T) {
			found := plateauOf(t, c.now, false)
			must.True(t, len(found) == 1 && found[0].Decided && found[0].Level == c.level && found[0].Leave == c.leave && found[0].Baseline == "current", "%+v, want %q and leave %v", found, c.level, c.leave)
		})
	}
	must.Len(t, plateauOf(t, 60e6, true), 0, "a recommendation of a session that cannot be trusted")
}

func TestInside(t *testing.T) {
	slow := []float64{1.2, 4.8, 8.1, 9.2, 9.6, 9.4, 9.5, 9.3, 9.6, 9.5, 9.4, 9.5} // d = 5
	flat := []float64{9.5, 9.4, 9.6, 9.5, 9.4, 9.6, 9.5, 9.4, 9.6}
	look := func(omit time.Duration, series ...[]float64) []string {
		var inside Inside
		for _, values := range series {
			var samples []model.Sample
			for i, v := range values {
				at := time.Duration(i) * time.Second
				samples = append(samples, model.Sample{Host: model.Far, Direction: model.To, Metric: model.Goodput,
					Start: at, Length: time.Second, Value: v, Omitted: at < omit})
			}
			slices.Reverse(samples)
			inside.Add(model.Run{Setting: "s1", Flow: model.Flow{Direction: model.To, Omit: omit}}, samples)
		}
		return inside.Warnings()
	}
	w := look(3*time.Second, slow, slow, flat)
	must.True(t, len(w) == 1 && w[0] == "the warm-up takes longer than the 3 s that are omitted: omit 5 s next time (--omit)", "warnings %q", w)
	must.Len(t, look(5*time.Second, slow, slow, flat), 0, "five seconds suffice")
	must.Len(t, look(3*time.Second, slow[:7], slow[:7]), 0, "seven intervals tell nothing of a warm-up")
	stopped := slices.Clone(flat)
	stopped[5], stopped[6] = 0.1, 0
	w = look(time.Second, flat, stopped)
	must.True(t, len(w) == 1 && w[0] == "1 of 2 runs stood still for a while, at most 2 s (s1): they count like every other", "warnings %q", w)
	must.Len(t, look(0), 0, "no runs")
}

func TestPlanLine(t *testing.T) {
	sigma := fact.Known(0.04, "stored session")
	o := PlanLine(newPlan(t, 2, func(o *plan.Request) { o.Margin = 5; o.Settle = 2 * time.Second }), sigma)
	n, _ := o.Expected.Get()
	must.True(t, n == 11 && o.LeastBlocks == 6 && o.MostBlocks == 20 && o.Runs == 48 && o.Candidates == 1, "%+v", o)
	x, _ := o.LeastChange.Get()
	near(t, "least change", float64(x), 100*math.Expm1(4*0.04/math.Sqrt(20)), 1e-9)
	total, _ := o.MostTime.Get()
	must.True(t, total == 48*12*time.Second, "most time %v", total)
	expected, _ := o.Time.Get()
	must.True(t, expected == (8+22)*12*time.Second, "time %v", expected)

	unknown := PlanLine(newPlan(t, 2, nil), fact.Unknown[float64]("first session"))
	must.True(t, !unknown.Expected.IsKnown() && !unknown.LeastChange.IsKnown() && !unknown.Time.IsKnown() && unknown.MostTime.IsKnown(),
		"without noise: %+v", unknown)

	ten := PlanLine(newPlan(t, 2, fixed(10)), sigma)
	x, _ = ten.LeastChange.Get()
	near(t, "fixed least change", float64(x), 100*math.Expm1(0.04*0.996), 0.01)
	must.Equal(t, len(ten.Warnings), 0, "ten blocks warn: %q", ten.Warnings)
	thin := PlanLine(newPlan(t, 2, fixed(2)), sigma)
	must.True(t, !thin.LeastChange.IsKnown() && len(thin.Warnings) != 0, "two blocks: %+v", thin)
	many := PlanLine(newPlan(t, 9, func(o *plan.Request) { o.Incomplete = true }), sigma)
	must.True(t, many.MostBlocks == 21 && many.Candidates == 8 && many.LeastBlocks == 9 && len(many.Warnings) != 0, "nine settings: %+v", many)
}
