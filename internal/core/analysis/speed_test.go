package analysis

import (
	"math/rand/v2"
	"testing"

	"linerate/internal/core/plan"
)

// BenchmarkLongSession looks once at 500 blocks of 5 settings, one of which is
// not decided before the end; it should take less than half a second.
func BenchmarkLongSession(b *testing.B) {
	p := newPlan(b, 5, func(o *plan.Options) { o.Blocks = 500 })
	rng := rand.New(rand.NewPCG(3, 4))
	runs := runsOf(p, 500, func(string, int, int) float64 { return 1e9 * (1 + 0.05*rng.NormFloat64()) })
	for b.Loop() {
		if r := Analyse(p, runs); r.Blocks != 500 {
			b.Fatalf("%d blocks", r.Blocks)
		}
	}
}
