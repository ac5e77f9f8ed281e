package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/must"
)

// Every design has orthogonal columns, and with its mirror images main effects that no
// interaction of two factors moves: the product of two columns is even in the mirror.
func TestScreen(t *testing.T) {
	for n, rows := range map[int]int{1: 8, 8: 8, 9: 12, 11: 12, 12: 20, 19: 20} {
		design := Screen(n)
		must.Need(t, len(design) == rows && len(design[0]) >= n, "%d factors: %d rows of %d", n, len(design), len(design[0]))
		for a := range design[0] {
			for b := range a {
				sum := 0
				for _, row := range design {
					sum += row[a] * row[b]
				}
				must.Equal(t, sum, 0, "%d factors: columns %d and %d have product", n, a, b)
			}
		}
	}
	must.True(t, Screen(0) == nil && Screen(ScreenMost+1) == nil, "a design of no factors, or of too many")
}

// The effects of a known plane, with an interaction that must not show.
func TestEffects(t *testing.T) {
	for _, n := range []int{8, 11, 19} {
		design := Screen(n)
		y := func(x []int, sign float64) float64 {
			v := 5.0
			for i := range n {
				v += sign * float64(x[i]) * 0.01 * float64(i) / 2
			}
			return v + 0.3*float64(x[0]*x[1])
		}
		d := lists.Each(design, func(row []int) float64 { return y(row, 1) - y(row, -1) })
		for i, e := range Effects(design, d)[:n] {
			must.True(t, math.Abs(e-0.01*float64(i)) <= 1e-12, "%d factors: effect %d is %g", n, i, e)
		}
	}
	// The 12 runs of statistics.md section 11.2, without mirror images: 2/N Σ x y.
	y := []float64{6.80, 6.78, 6.71, 6.83, 6.79, 6.85, 6.70, 6.72, 6.69, 6.81, 6.70, 6.66}
	for i := range y {
		y[i] *= 2
	}
	want := []float64{-0.06667, 0.03667, -0.01333, 0.06000, 0.02667, 0.04333, 0.01333, 0.01333, 0.02000, 0.04000, 0.01333}
	for i, e := range Effects(Screen(11), y) {
		must.True(t, math.Abs(e-want[i]) <= 1e-5, "effect %d of the example is %.5f, want %.5f", i, e, want[i])
	}
}

// The example of statistics.md section 11.2.
func TestLenth(t *testing.T) {
	pse := Lenth([]float64{.120, .010, -.020, .005, .060, .004, .015, -.010, .003, .012, .008})
	must.True(t, math.Abs(pse-0.015) <= 1e-12, "pseudo standard error %g, want 0.015", pse)
	must.Equal(t, Lenth([]float64{0, 0, 0, 0, 1}), 0, "nearly all are nothing")
}

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

// tenths are intervals of 100 ms with these values.
func tenths(values ...float64) []RunInterval {
	var out []RunInterval
	for i, v := range values {
		out = append(out, RunInterval{Start: time.Duration(i) * 100 * time.Millisecond, Length: 100 * time.Millisecond, Value: v})
	}
	return out
}

// The examples of statistics.md section 11.7.
func TestRunLength(t *testing.T) {
	const h, rtt = 1200 * time.Millisecond, 20 * time.Millisecond
	for _, c := range []struct {
		between, within, effect float64 // standard deviations, log ratio
		rtt                     time.Duration
		want                    float64 // s
	}{
		{0.01, 0.04, 0, rtt, 4.38}, {0.02, 0.04, 0, rtt, 2.19}, {0.01, 0.04, math.Log(8), rtt, 0.5}, {0.01, 0.04, math.Log(1.1), rtt, 4.38},
		{0.01, 0.04, math.Log(8), 200 * time.Millisecond, 4}, {0.01, 0.5, math.Log(4), rtt, 2.08}, {0.001, 2, 0, rtt, 4.8}, {0.01, 0.04, 0, 2 * time.Second, 40},
	} {
		got := RunLength(h, c.between*c.between, c.within*c.within, c.effect, c.rtt).Seconds()
		must.True(t, math.Abs(got-c.want) <= 0.005, "%+v: %.3f s", c, got)
	}
}

func TestSlowStartIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		want   time.Duration
		seen   bool
	}{
		"doubling":       {[]float64{1, 2, 4, 8, 9.4, 9.5, 9.4, 9.5}, 500 * time.Millisecond, true},
		"at once":        {[]float64{9.4, 9.5, 9.4, 9.5}, 100 * time.Millisecond, true},
		"nothing yet":    {[]float64{0, 0, 0, 0, 9.4, 9.5, 9.4}, 500 * time.Millisecond, true},
		"never steady":   {[]float64{1, 2, 1, 2, 1, 2}, 0, false},
		"too short":      {[]float64{9, 9}, 0, false},
		"two are no row": {[]float64{9.4, 9.4, 5, 9.4, 9.4, 5}, 0, false},
		"losses":         {[]float64{6, 21, 28, 70, 30, 53, 42, 37, 40, 51, 47, 36, 58, 41}, 400 * time.Millisecond, true},
		"a burst first":  {[]float64{90, 60, 80, 20, 12, 9, 11, 14, 8, 12, 9, 13, 10, 12}, 600 * time.Millisecond, true},
		"still growing":  {[]float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}, 0, false},
		"held back":      {[]float64{3.4, 3.4, 7.4, 6.1, 5.6, 5.6, 5.6, 5.6, 5.6, 5.6, 5.6, 5.6}, 400 * time.Millisecond, true}, // 60 Mbit/s, 30 ms
	} {
		got, seen := SlowStart(tenths(c.values...))
		must.True(t, got == c.want && seen == c.seen, "%s: %v, %v", name, got, seen)
	}
}

// Independent intervals of 5 % have v_w = 0.05² × 0.1 s. Short batches of correlated intervals
// show at least half of the long-run variance; single intervals show a sixth.
func TestWithinCountsAutocorrelation(t *testing.T) {
	for _, phi := range []float64{0, 0.7} {
		rng := rand.New(rand.NewPCG(1, 2))
		var values []float64
		for x := 0.0; len(values) < 40_000; {
			x = phi*x + 0.05*math.Sqrt(1-phi*phi)*rng.NormFloat64()
			values = append(values, math.Exp(x))
		}
		got, freedom := Within(tenths(values...))
		long := 0.05 * 0.05 * 0.1 * (1 + phi) / (1 - phi)
		must.True(t, freedom == 7999 && !(got < 0.5*long) && !(got > 1.1*long) && (phi != 0 || !(got < 0.9*long)), "φ %.1f: v_w %.3g s with %d degrees of freedom, long-run %.3g", phi, got, freedom, long)
	}
	v, n := Within(tenths(1, 2, 3, 4, 5, 6, 7))
	must.True(t, v == 0 && n == 0, "one batch has no spread: %v, %d", v, n)
}

func TestTrendOfBaselineV1(t *testing.T) {
	var x, y []float64
	for i, v := range v1Baseline() {
		x, y = append(x, float64(i+1)), append(y, math.Log(v))
	}
	near(t, "slope", TheilSen(x, y), -0.005899, 1e-6)
	k := Kendall(y)
	must.Equal(t, k.S, -8, "S")
	near(t, "tau", k.Tau, -0.285714, 1e-6)
	near(t, "p", k.P, 0.398760, 1e-6)
}

func TestKendallEdges(t *testing.T) {
	near(t, "five rising", Kendall([]float64{1, 2, 3, 4, 5}).P, 2.0/120, 1e-12)
	near(t, "one value", Kendall([]float64{1}).P, 1, 0)
	near(t, "all tied", Kendall([]float64{2, 2, 2, 2}).P, 1, 1e-12)
}

func plateauExample() [][]float64 {
	rates := [][]float64{{4.71, 8.02, 9.31, 9.38}, {4.60, 7.85, 9.05, 9.20}, {4.85, 8.20, 9.48, 9.44},
		{4.55, 7.90, 9.22, 9.18}, {4.68, 8.11, 9.15, 9.33}, {4.75, 7.95, 9.35, 9.29}}
	for _, row := range rates {
		for i := range row {
			row[i] = math.Log(row[i])
		}
	}
	return rates
}

func TestPlateau(t *testing.T) {
	r := Plateau(plateauExample(), 0.05, 0.95)
	nearAll(t, "low", r.Low, []float64{-0.696478, -0.157280, -0.014110, -0.004645}, 1e-6)
	must.True(t, r.Decided && r.Level == 2, "%+v, want level 2", r)
	near(t, "quantile", tQuantile(5, 0.95), 2.015048, 1e-6)
}

func TestPlateauUndecidedGivesARange(t *testing.T) {
	noisy := [][]float64{{1, 2, 2.3, 1.9}, {1.1, 2.4, 2, 2.2}, {0.9, 2.1, 2.4, 2.1}}
	r := Plateau(noisy, 0.05, 0.95)
	must.True(t, !r.Decided && r.From == 1 && r.To == 2, "%+v, want not decided, levels 1 to 2", r)
	thin := Plateau(noisy[:1], 0.05, 0.95)
	must.True(t, !thin.Decided && thin.To == 3 && len(thin.Warnings) != 0, "one block: %+v", thin)
}

func TestPlateauFindsAFallingCurve(t *testing.T) {
	r := Plateau([][]float64{{2.30, 2.00, 1.5}, {2.31, 2.01, 1.5}, {2.29, 2.02, 1.4}, {2.30, 2.00, 1.5}}, 0.05, 0.95)
	must.True(t, r.Decided && r.Level == 0, "%+v, want level 0", r)
}

func TestBestSplit(t *testing.T) {
	x := []float64{9.5, 9.4, 9.6, 9.5, 9.3, 9.6, 9.5, 9.4, 7.1, 7.0, 7.2, 7.1, 6.9, 7.0, 7.2, 7.1}
	s := BestSplit(x)
	near(t, "Q", s.Q, 3.987042, 1e-6)
	must.Equal(t, s.At, 8, "k")
	near(t, "before", s.Before, 9.475, 1e-9)
	short := BestSplit(x[:5])
	must.True(t, short.At == 0, "five values were split: %+v", short)
	flat := BestSplit(make([]float64, 10))
	must.True(t, flat.At == 0, "a constant was split: %+v", flat)
}

func TestPhi(t *testing.T) {
	r := LagOne([]float64{9.1, 9.3, 9.2, 9.6, 9.7, 9.5, 9.4, 9.0, 8.9, 9.1, 9.3, 9.6})
	near(t, "r", r, 0.493619, 1e-6)
	near(t, "phi", Phi(r, 12), 0.865429, 1e-6)
	near(t, "clipped above", Phi(0.9, 6), 0.9, 0)
	near(t, "clipped below", Phi(-0.9, 12), 0, 0)
}

// The table of statistics.md section 10.3 is accurate to ±0.03; the simulation here adds as
// much again.
func TestShiftLimit(t *testing.T) {
	for phi, want := range map[float64]float64{0: 3.18, 0.5: 4.23, 0.9: 5.07} {
		near(t, "99 % at N 30", shiftQuantile(30, phi, 10_000, 0.99, rand.New(rand.NewPCG(7, 7))), want, 0.09)
	}
	for phi, want := range map[float64]float64{0.3: 3.36, 0.7: 4.37} {
		near(t, "95 % at N 30", shiftQuantile(30, phi, 10_000, 0.95, rand.New(rand.NewPCG(7, 7))), want, 0.06)
	}
	must.Equal(t, ShiftLimit(12, 0.4, rand.New(rand.NewPCG(1, 1))), ShiftLimit(12, 0.4, rand.New(rand.NewPCG(1, 1))), "the same generator gave")
}

// The exact distribution matches a count of the inversions of every permutation, and a long
// series takes no time.
func TestInversionDistribution(t *testing.T) {
	nearAll(t, "of four", inversionDistribution(4), []float64{1. / 24, 3. / 24, 5. / 24, 6. / 24, 5. / 24, 3. / 24, 1. / 24}, 1e-15)
	sum := 0.0
	for _, p := range inversionDistribution(500) {
		sum += p
	}
	near(t, "sum of 500", sum, 1, 1e-9)
}

func TestPlateauOfRaggedRows(t *testing.T) {
	for _, rows := range [][][]float64{
		{{1, 2, 3}, {1, 2}, {1, 2, 3}}, {{1, 2}, {1, 2, 3}}, {{1, math.NaN()}, {1, 2}, {1, 2}},
	} {
		r := Plateau(rows, 0.05, 0.95)
		must.True(t, !r.Decided && len(r.Warnings) != 0, "%v: %+v", rows, r)
	}
}
