package analysis

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

func TestSubsetBlocksDecideEveryCandidate(t *testing.T) {
	p := newPlan(t, 8, nil)
	d := map[string][]float64{}
	for _, name := range plan.Candidates(p) {
		d[name] = []float64{.5, .52, .48}
	}
	d["s3"] = []float64{.2, -.19}
	r := Analyse(p, runsOf(p, len(p.Order), steady(p, d)))
	for _, v := range r.Verdicts {
		want := model.Better
		switch v.Setting {
		case "s3":
			want = model.Undecided
		case p.Twin:
			want = model.Equivalent
		}
		must.True(t, v.Outcome == want && v.Blocks >= 20, "%s: %s after %d blocks, want %s", v.Setting, v.Outcome, v.Blocks, want)
	}
	must.True(t, len(r.Leaving) == 6 && r.Done, "leaving %v, done %v", r.Leaving, r.Done)
}

func TestPlanByHand(t *testing.T) {
	one := model.Plan{Settings: []model.Setting{{Name: "as is"}}, Baseline: "as is", MaxBlocks: 1, Order: [][]string{{"as is"}},
		Flow: model.Flow{Direction: model.To}}
	r := Analyse(one, nil)
	must.True(t, !r.Done && len(r.Verdicts) == 0, "before: %+v", r)
	if r := Analyse(one, runsOf(one, 1, steady(one, nil))); !r.Done || r.Blocks != 1 || len(r.Verdicts) != 0 {
		t.Errorf("after: %+v", r)
	}
	two := one
	two.Settings, two.Order = append(one.Settings, model.Setting{Name: "b"}), [][]string{{"b", "as is"}}
	v := verdictOf(t, Analyse(two, runsOf(two, 1, steady(two, nil))), "b")
	must.True(t, v.Outcome == model.Undecided && v.Interval.Confidence == 0.95, "%+v", v)
}
