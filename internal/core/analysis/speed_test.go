package analysis

import (
	"math/rand/v2"
	"testing"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
)

// longSession is 500 blocks of 5 settings in all metrics, none of which is decided
// before the end.
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

// BenchmarkLongSession looks once at a long session.
func BenchmarkLongSession(b *testing.B) {
	p, runs := longSession(b)
	for b.Loop() {
		Analyse(p, runs)
	}
}
