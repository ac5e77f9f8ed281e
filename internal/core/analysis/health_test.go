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
	"linerate/internal/core/plan/plantest"
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

	short := PlanLine(newPlan(t, 2, func(o *plan.Request) { o.Margin = 2 }), sigma)
	must.True(t, !short.Expected.IsKnown() && len(short.Warnings) == 1 && strings.HasSuffix(short.Warnings[0], " blocks, more than the plan's 20"), "a small margin: %+v", short)

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

// gridOf returns a plan of two factors with a and b levels, compared with "current".
func gridOf(t *testing.T, a, b int, change func(*plan.Request)) model.Plan {
	return newPlan(t, 0, func(o *plan.Request) {
		o.Factors = []model.Factor{plantest.Factor("congestion", strings.Split("abc", "")[:a]...), plantest.Factor("far.link.mtu", strings.Split("123", "")[:b]...)}
		o.Settings = append([]model.Setting{{Name: "current"}}, plantest.Settings(o.Factors...)...)
		if change != nil {
			change(o)
		}
	})
}

// Issue 10, item 7: a grid reports what each factor does, and whether the factors depend on
// each other.
func TestGridTellsMainEffectsAndInteraction(t *testing.T) {
	logs := map[string]float64{"congestion=a mtu=1": 0, "congestion=b mtu=1": 0.2, "congestion=a mtu=2": 0.1, "congestion=b mtu=2": 0.3, "current": -0.1}
	rates := func(p model.Plan, extra float64) rate {
		return func(setting string, block, position int) float64 {
			y := logs[setting]
			if setting == p.Twin {
				y = logs["current"]
			}
			if setting == "congestion=b mtu=2" {
				y += extra
			}
			return 1e9 * math.Exp(y+0.002*float64((3*block+position)%5))
		}
	}
	for name, mode := range map[string]func(*plan.Request){"fixed": fixed(10), "sequential": nil} {
		p := gridOf(t, 2, 2, mode)
		found := Factorials(p, runsOf(p, 10, rates(p, 0)))
		must.Need(t, len(found) == 1 && found[0].Blocks == 10 && len(found[0].Mains) == 2 && len(found[0].Pairs) == 1, "%s: %+v", name, found)
		f := found[0]
		near(t, name+" A", f.Mains[0].Estimate, 0.2, 0.005)
		near(t, name+" B", f.Mains[1].Estimate, 0.1, 0.005)
		must.True(t, f.Mains[0].Outcome == model.Better && f.Mains[1].Outcome == model.Better && f.Pairs[0].Outcome == model.Equivalent, "%s: %+v", name, f)
		must.True(t, len(f.Good) == 1 && f.Good[0] == "congestion=b mtu=2", "%s: good are %q", name, f.Good)
		pair := Factorials(p, runsOf(p, 10, rates(p, 0.4)))[0].Pairs[0]
		near(t, name+" with", pair.With, 0.6, 0.005)
		near(t, name+" without", pair.Without, 0.2, 0.005)
		must.True(t, pair.Outcome == model.Better && pair.Comparisons == 1, "%s: %+v", name, pair)
		r := Analyse(p, runsOf(p, 10, rates(p, 0.4)))
		must.Equal(t, Best(p, r.Verdicts), "congestion=b mtu=2", "%s: best", name)
		must.True(t, len(r.Plateaus) == 1 && r.Plateaus[0].Decided && r.Plateaus[0].Level == "congestion=b mtu=2", "%s: the smallest that is enough: %+v", name, r.Plateaus)
	}
}

func TestGridOfThreeLevelsAndItsLimits(t *testing.T) {
	p := gridOf(t, 3, 2, fixed(8))
	// The second factor helps only with the third level of the first.
	f := func(setting string, block, position int) float64 {
		y := 0.001 * float64((block+position)%4)
		if setting == "congestion=c mtu=2" {
			y += 0.5
		}
		return 1e9 * math.Exp(y)
	}
	found := Factorials(p, runsOf(p, 8, f))
	must.Need(t, len(found) == 1 && len(found[0].Mains) == 3 && len(found[0].Pairs) == 1, "%+v", found)
	pair := found[0].Pairs[0]
	must.True(t, pair.A.Level == 2 && pair.Comparisons == 2 && pair.Outcome == model.Better && math.Abs(pair.Estimate-0.5) <= 0.01, "%+v", pair)
	found = Factorials(p, runsOf(p, 2, f))
	must.True(t, found == nil, "of two blocks: %+v", found)
	wrong := func(setting string, block, position int) float64 {
		if setting == p.Twin {
			return 2 * f(setting, block, position)
		}
		return f(setting, block, position)
	}
	found = Factorials(p, runsOf(p, 8, wrong))
	must.True(t, found == nil, "of a session that cannot be trusted: %+v", found)
	one := newPlan(t, 3, fixed(8))
	must.True(t, Factorials(one, runsOf(one, 8, f)) == nil, "of no grid")
}

// separate runs the first blocks of a plan with one run per setting and direction, and
// alternates which direction goes first.
func separate(p model.Plan, blocks int, f func(d model.Direction, setting string, block, place int) float64) []model.Run {
	var runs []model.Run
	for b, names := range p.Order[:blocks] {
		position := 0
		for i, name := range names {
			order := slices.Clone(p.Directions)
			if (b+i)%2 == 1 {
				slices.Reverse(order)
			}
			for _, d := range order {
				position++
				runs = append(runs, model.Run{
					Number: len(runs) + 1, Block: b + 1, Attempt: 1, Position: position, Setting: name, State: model.RunValid,
					Values: []model.Value{{Direction: d, Metric: model.Goodput, Value: f(d, name, b+1, i)}},
				})
			}
		}
	}
	return runs
}

func bothWays(o *plan.Request) { o.Directions = []model.Direction{model.To, model.From} }

func TestDirectionsAsRunsOfTheirOwn(t *testing.T) {
	p := newPlan(t, 2, bothWays)
	runs := separate(p, 12, func(d model.Direction, setting string, block, _ int) float64 {
		if i := block - p.NullBlocks - 1; setting == "s1" && i >= 0 {
			if d == model.To {
				return 1e9 * math.Exp(v1()[i])
			}
			return 1e9 * math.Exp(-v1()[i])
		}
		return 1e9
	})
	r := Analyse(p, runs)
	must.Need(t, len(r.Verdicts) == 2 && len(r.Warnings) == 0 && r.Blocks == 8, "%d verdicts of %d blocks, warnings %q", len(r.Verdicts), r.Blocks, r.Warnings)
	for i, want := range []model.Outcome{model.Better, model.Worse} {
		v := r.Verdicts[i]
		must.True(t, v.Outcome == want && v.Blocks == 8, "%s: %s after %d blocks, want %s after 8", v.Direction, v.Outcome, v.Blocks, want)
		must.True(t, r.Noise[i].Pairs == 4 && r.Health[i].Blocks == 12, "%d pairs, %d blocks looked at", r.Noise[i].Pairs, r.Health[i].Blocks)
	}
	must.True(t, r.Done && slices.Equal(r.Leaving, []string{"s1"}), "done %v, leaving %v", r.Done, r.Leaving)
	early := runs[:4*8-1] // the eighth block lacks one direction of a setting that is still in question
	cut := Analyse(p, early)
	must.True(t, cut.Blocks == 3, "a block without its last direction counts: %d blocks, want 3", cut.Blocks)
	open := OpenBlocks(p, early)
	must.True(t, len(open) == len(p.Order)-7 && open[0] == 8, "open blocks %v, want 8 and on", open)
}

func TestPositionIsThatOfTheDirection(t *testing.T) {
	p := newPlan(t, 2, func(o *plan.Request) { bothWays(o); fixed(10)(o) })
	r := Analyse(p, separate(p, 14, func(d model.Direction, _ string, _, place int) float64 {
		if d == model.To && place == 1 {
			return 0.95e9
		}
		return 1e9
	}))
	near(t, "position to", r.Health[0].Position, math.Log(0.95), 1e-9)
	near(t, "position from", r.Health[1].Position, 0, 1e-9)
}

func TestInterruptedAttemptsAreNoFailures(t *testing.T) {
	p := newPlan(t, 2, fixed(3))
	runs := runsOf(p, 6, steady(p, nil))
	for attempt := 1; attempt <= 4; attempt++ {
		next := attemptOf(len(runs), 7, attempt, p.Order[6][:1], steady(p, nil))
		next[0].State = model.RunInterrupted
		runs = append(runs, next...)
	}
	r := Analyse(p, runs)
	must.True(t, !r.Done && len(r.Unstable) == 0, "done %v, unstable %v", r.Done, r.Unstable)
	must.Same(t, OpenBlocks(p, runs), []int{7}, "open blocks")
	for i := range runs {
		if runs[i].Block == 7 {
			runs[i].State = model.RunInvalid
		}
	}
	open := OpenBlocks(p, runs)
	must.True(t, len(open) == 0, "open blocks %v after too many failures", open)
}

func TestPlanLineCountsDirections(t *testing.T) {
	one := PlanLine(newPlan(t, 2, nil), fact.Known(0.02, "test"))
	two := PlanLine(newPlan(t, 2, bothWays), fact.Known(0.02, "test"))
	if two.Runs != 2*one.Runs || two.MostTime.Or(0) != 2*one.MostTime.Or(time.Hour) || two.Time.Or(0) != 2*one.Time.Or(time.Hour) {
		t.Errorf("two directions: %d runs in %v, %v expected; one: %d in %v, %v", two.Runs, two.MostTime.Or(0), two.Time.Or(0),
			one.Runs, one.MostTime.Or(0), one.Time.Or(0))
	}
}
