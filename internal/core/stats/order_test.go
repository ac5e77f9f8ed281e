package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"linerate/internal/must"
)

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
	logs := [][]float64{{2.30, 2.00, 1.5}, {2.31, 2.01, 1.5}, {2.29, 2.02, 1.4}, {2.30, 2.00, 1.5}}
	r := Plateau(logs, 0.05, 0.95)
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
	x := []float64{9.1, 9.3, 9.2, 9.6, 9.7, 9.5, 9.4, 9.0, 8.9, 9.1, 9.3, 9.6}
	r := LagOne(x)
	near(t, "r", r, 0.493619, 1e-6)
	near(t, "phi", Phi(r, 12), 0.865429, 1e-6)
	near(t, "clipped above", Phi(0.9, 6), 0.9, 0)
	near(t, "clipped below", Phi(-0.9, 12), 0, 0)
}

// The table of statistics.md section 10.3 is good to ±0.03; the simulation here
// adds as much again.
func TestShiftLimit(t *testing.T) {
	for phi, want := range map[float64]float64{0: 3.18, 0.5: 4.23, 0.9: 5.07} {
		rng := rand.New(rand.NewPCG(7, 7))
		near(t, "99 % at N 30", shiftQuantile(30, phi, 10_000, 0.99, rng), want, 0.09)
	}
	for phi, want := range map[float64]float64{0.3: 3.36, 0.7: 4.37} {
		rng := rand.New(rand.NewPCG(7, 7))
		near(t, "95 % at N 30", shiftQuantile(30, phi, 10_000, 0.95, rng), want, 0.06)
	}
	a := ShiftLimit(12, 0.4, rand.New(rand.NewPCG(1, 1)))
	must.Equal(t, a, ShiftLimit(12, 0.4, rand.New(rand.NewPCG(1, 1))), "the same generator gave")
}

// The exact distribution by counting inversions of every permutation, and a long
// series in no time.
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
