package stats

import (
	"math"
	"testing"

	"linerate/internal/must"
)

func TestNullNoise(t *testing.T) {
	n := NullNoise([]float64{.012, -.031, .008, .022})
	near(t, "sigma", n.Sigma, 0.020329, 1e-6)
	near(t, "upper", n.Upper, 0.031663, 1e-6)
	must.Equal(t, n.Pairs, 4, "pairs")
	none := NullNoise(nil)
	must.True(t, math.IsNaN(none.Sigma) && math.IsNaN(none.Upper), "no pairs: %+v", none)
}

func TestPower(t *testing.T) {
	for _, c := range []struct {
		n           int
		ratio, want float64
	}{{6, 1, 0.50684}, {10, 1, 0.80310}, {8, 1.25, 0.85644}, {5, 2, 0.90888}} {
		near(t, "power", directionPower(spreads(c.n), c.n, c.ratio, tQuantile(c.n-1, 0.975)), c.want, 2e-4)
	}
	near(t, "power without effect", directionPower(spreads(8), 8, 0, tQuantile(7, 0.975)), 0.05, 2e-4)
}

// TestLeastEffect allows 0.006: the table's 1.44 (n 6) and 1.16 (n 10, 90 %) are
// 1.4345 and 1.1545 by direct integration of the same formula.
func TestLeastEffect(t *testing.T) {
	n := []int{3, 4, 5, 6, 8, 10, 12, 15, 20, 30}
	at80 := []float64{3.26, 2.13, 1.68, 1.44, 1.16, 1.00, 0.89, 0.78, 0.66, 0.53}
	at90 := []float64{3.92, 2.51, 1.97, 1.67, 1.34, 1.16, 1.03, 0.90, 0.76, 0.61}
	for i, blocks := range n {
		near(t, "least effect at 80 %", LeastEffect(blocks, 0.8, 0.05), at80[i], 0.006)
		near(t, "least effect at 90 %", LeastEffect(blocks, 0.9, 0.05), at90[i], 0.006)
	}
}

func TestExpectedBlocks(t *testing.T) {
	for _, c := range []struct {
		sigma, g float64
		want     int
	}{{0.04, 0.05, 11}, {0.04, 0.2, 6}, {0, 0.03, 6}, {0.04, 0, 1_000_000}} {
		must.Equal(t, ExpectedBlocks(c.sigma, c.g), c.want, "ExpectedBlocks(%v, %v)", c.sigma, c.g)
	}
	near(t, "turned round", SequentialLeast(16, 0.04), 0.04, 1e-12)
}

func TestMoreBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		estimate, s, margin float64
		n, floor, want      int
	}{
		"direction is nearer":   {0.02, 0.03, 0.03, 8, 6, 28},  // (4×.03/.02)² = 36
		"equivalence is nearer": {0.005, 0.03, 0.03, 8, 6, 16}, // (4×.03/.025)² = 23.04
		"beyond the margin":     {0.04, 0.04, 0.03, 8, 6, 8},   // 16
		"at least one":          {0.5, 0.01, 0.03, 8, 6, 1},
		"at least the floor":    {0.5, 0.01, 0.03, 3, 8, 5},
		"unknown noise":         {0.5, math.NaN(), 0.03, 1, 6, 5},
		"no noise, no effect":   {0, 0, 0.03, 6, 6, 1},
		"never":                 {0.03, 1e9, 0.03, 6, 6, 1_000_000 - 6},
	} {
		must.Equal(t, MoreBlocks(c.estimate, c.s, c.margin, c.n, c.floor), c.want, "%s", name)
	}
}
