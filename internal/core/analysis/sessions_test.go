package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

// rate returns the goodput of a setting in a block, 1…, at a position, 1….
type rate func(setting string, block, position int) float64

func newPlan(t testing.TB, settings int, change func(*plan.Request)) model.Plan {
	t.Helper()
	o := plan.Request{Plan: model.Plan{Seed: 11, Settle: -1,
		Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: 10 * time.Second}}}
	for i := range settings {
		o.Settings = append(o.Settings, model.Setting{Name: fmt.Sprintf("s%d", i)})
	}
	if change != nil {
		change(&o)
	}
	return must.Get(plan.New(o))(t)
}

func fixed(blocks int) func(*plan.Request) {
	return func(o *plan.Request) { o.Mode, o.MaxBlocks = model.FixedBlocks, blocks }
}

// runsOf runs the first blocks of a plan without faults, 10 s per run.
func runsOf(p model.Plan, blocks int, f rate) []model.Run {
	var runs []model.Run
	for b, names := range p.Order[:blocks] {
		runs = append(runs, attemptOf(len(runs), b+1, 1, names, f)...)
	}
	return runs
}

func attemptOf(done, block, attempt int, names []string, f rate) []model.Run {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var runs []model.Run
	for i, name := range names {
		at := start.Add(time.Duration(done+i) * 10 * time.Second)
		runs = append(runs, model.Run{
			Number: done + i + 1, Block: block, Attempt: attempt, Position: i + 1, Setting: name,
			State: model.RunValid, Started: at, Ended: at.Add(10 * time.Second),
			Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: f(name, block, i+1)}},
		})
	}
	return runs
}

// steady returns a rate whose differences from the baseline are exactly the given ones per
// setting, block by block after the baseline pairs.
func steady(p model.Plan, d map[string][]float64) rate {
	return func(setting string, block, _ int) float64 {
		diffs := d[setting]
		if i := block - p.NullBlocks - 1; i >= 0 && len(diffs) > 0 {
			return 1e9 * math.Exp(diffs[i%len(diffs)])
		}
		return 1e9
	}
}

// Reference data of statistics.md sections 3 and 4.4.
func v1() []float64 {
	return []float64{0.04213011, 0.05034548, 0.01496598, 0.07201269, 0.02324250, 0.06143823, 0.02190216, 0.06673080}
}

func v2() []float64 {
	return []float64{.004, -.011, .008, .002, -.006, .009, -.003, .001, .005, -.004}
}

func verdictOf(t testing.TB, r Result, setting string) model.Verdict {
	t.Helper()
	for _, v := range r.Verdicts {
		if v.Setting == setting {
			return v
		}
	}
	t.Fatalf("no verdict on %s in %+v", setting, r.Verdicts)
	return model.Verdict{}
}

// verdictOfMetric returns the verdict on a setting in one metric, from the first direction that
// has it.
func verdictOfMetric(t testing.TB, r Result, setting string, m model.Metric) model.Verdict {
	t.Helper()
	for _, v := range r.Verdicts {
		if v.Setting == setting && v.Metric == m {
			return v
		}
	}
	t.Fatalf("no verdict on %s of %s in %+v", m, setting, r.Verdicts)
	return model.Verdict{}
}

func near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	must.True(t, !math.IsNaN(got) && math.Abs(got-want) <= tolerance, "%s = %.9g, want %.9g ± %g", what, got, want, tolerance)
}

// longSession returns 500 blocks of 5 settings in all metrics, with no decision before the end.
func longSession(t testing.TB) (model.Plan, []model.Run) {
	p := newPlan(t, 5, func(o *plan.Request) { probed(o); o.MaxBlocks = 500 })
	rng := rand.New(rand.NewPCG(3, 4))
	value := func() float64 { return 1 + 0.05*rng.NormFloat64() }
	runs := runsOf(p, 500, func(string, int, int) float64 { return 1e9 * value() })
	for i := range runs {
		for _, m := range metric.Measured(p.Flow)[1:] {
			runs[i].Values = append(runs[i].Values, model.Value{Direction: model.To, Metric: m, Value: value()})
		}
	}
	return p, runs
}

// BenchmarkLongSession analyses a long session once.
func BenchmarkLongSession(b *testing.B) {
	p, runs := longSession(b)
	for b.Loop() {
		Analyse(p, runs)
	}
}

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
	r = Analyse(one, runsOf(one, 1, steady(one, nil)))
	must.True(t, r.Done && r.Blocks == 1 && len(r.Verdicts) == 0, "after: %+v", r)
	two := one
	two.Settings, two.Order = append(one.Settings, model.Setting{Name: "b"}), [][]string{{"b", "as is"}}
	v := verdictOf(t, Analyse(two, runsOf(two, 1, steady(two, nil))), "b")
	must.True(t, v.Outcome == model.Undecided && v.Interval.Confidence == 0.95, "%+v", v)
}
