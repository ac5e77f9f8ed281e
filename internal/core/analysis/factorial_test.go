package analysis

import (
	"math"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/plan/plantest"
	"linerate/internal/must"
)

// gridOf is a plan of two factors with so many levels, held against "current".
func gridOf(t *testing.T, a, b int, change func(*plan.Request)) model.Plan {
	return newPlan(t, 0, func(o *plan.Request) {
		o.Factors = []model.Factor{plantest.Factor("congestion", strings.Split("abc", "")[:a]...), plantest.Factor("far.link.mtu", strings.Split("123", "")[:b]...)}
		o.Settings = append([]model.Setting{{Name: "current"}}, plantest.Settings(o.Factors...)...)
		if change != nil {
			change(o)
		}
	})
}

// Issue 10, item 7: a grid says what each factor does, and whether they depend on each
// other.
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
		must.True(t, f.Mains[0].Outcome == model.Better && f.Mains[1].Outcome == model.Better && f.Pairs[0].Outcome == model.Equivalent,
			"%s: %+v", name, f)
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
	if found := Factorials(p, runsOf(p, 2, f)); found != nil {
		t.Errorf("of two blocks: %+v", found)
	}
	wrong := func(setting string, block, position int) float64 {
		if setting == p.Twin {
			return 2 * f(setting, block, position)
		}
		return f(setting, block, position)
	}
	if found := Factorials(p, runsOf(p, 8, wrong)); found != nil {
		t.Errorf("of a session that cannot be trusted: %+v", found)
	}
	one := newPlan(t, 3, fixed(8))
	must.True(t, Factorials(one, runsOf(one, 8, f)) == nil, "of no grid")
}
