package analysis

import (
	"fmt"
	"math"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

// rate gives the goodput of a setting in a block, 1…, at a position, 1….
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

// runsOf runs the first blocks of a plan without any fault, 10 s per run.
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

// steady is a rate whose differences from the baseline are exactly those given
// per setting, block by block after the baseline pairs.
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

// verdictOfMetric returns the verdict on a setting in one metric and the first
// direction that has it.
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
