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
