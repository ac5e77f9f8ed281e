package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"linerate/internal/must"
)

func TestSignFlip(t *testing.T) {
	near(t, "V1", SignFlip(v1(t), nil), 0.0078125, 0)
	five := []float64{0.051, 0.032, 0.047, 0.060, 0.028}
	near(t, "five blocks", SignFlip(five, nil), 0.0625, 0)
	near(t, "no blocks", SignFlip(nil, nil), 1, 0)
	near(t, "all zero", SignFlip([]float64{0, 0, 0}, nil), 1, 0)
}

func TestSignFlipDrawsNearExact(t *testing.T) {
	d := append(v2(), v2()...) // 20: the largest that is enumerated
	for i := range d {
		d[i] += 0.001 * float64(i%3)
	}
	exact := SignFlip(d, nil)
	drawn := SignFlip(append(d, 0), rand.New(rand.NewPCG(1, 2))) // a 0 changes no sum
	near(t, "drawn p", drawn, exact, 5*math.Sqrt(exact*(1-exact)/FlipDraws))
	must.True(t, exact >= 0.01 && exact <= 0.9, "p = %v tests nothing", exact)
}

func TestHodgesLehmannV1(t *testing.T) {
	r := HodgesLehmann(v1(t), 0.95)
	near(t, "estimate", r.Estimate, 0.043903, 1e-6)
	near(t, "low", r.Low, 0.021902, 1e-6)
	near(t, "high", r.High, 0.066725, 1e-6)
	near(t, "achieved", r.Confidence, 0.9609375, 1e-12)
	must.Equal(t, r.K, 4, "k")
	tPlus, p, ok := SignedRank(v1(t))
	must.True(t, tPlus == 36 && ok, "T+ = %d (%v), want 36", tPlus, ok)
	near(t, "signed-rank p", p, 0.0078125, 1e-15)
}

func TestSignedRankRefusesTiesAndDropsZeros(t *testing.T) {
	_, _, ok := SignedRank([]float64{1, -1, 2})
	must.True(t, !ok, "tied sizes were ranked")
	_, _, ok = SignedRank([]float64{0, 0})
	must.True(t, !ok, "zeros alone were ranked")
	tPlus, p, ok := SignedRank([]float64{0, 1, -2, 3})
	must.True(t, ok && tPlus == 4, "T+ = %d (%v), want 4", tPlus, ok)
	near(t, "p of T+ = 4 of 6", p, 0.75, 1e-15) // P(T ≤ 2) = 3/8
}

// The table of statistics.md section 4.2.
func TestHodgesLehmannRanks(t *testing.T) {
	k95 := []int{1, 3, 4, 6, 9, 11, 14, 18, 22, 26, 30, 35, 41, 47, 53}
	achieved := []float64{96.88, 95.31, 96.09, 96.09, 95.12, 95.80, 95.75, 95.21,
		95.06, 95.21, 95.57, 95.52, 95.17, 95.06, 95.16}
	for i, want := range k95 {
		r := HodgesLehmann(make([]float64, i+6), 0.95)
		must.Equal(t, r.K, want, "n %d: k", i+6)
		near(t, "achieved %", 100*r.Confidence, achieved[i], 0.005+1e-9)
	}
	for n, want := range map[int]int{6: 0, 7: 0, 8: 1, 9: 2, 10: 4, 12: 8, 15: 16, 20: 38} {
		must.Equal(t, HodgesLehmann(make([]float64, n), 0.99).K, want, "n %d at 99 %%: k", n)
	}
	thin := HodgesLehmann(make([]float64, 5), 0.95)
	must.True(t, thin.K == 0 && math.IsInf(thin.Low, -1) && math.IsInf(thin.High, 1) && len(thin.Warnings) != 0,
		"five blocks: %+v, want no bound and a warning", thin)
}

func TestTIntervalV1(t *testing.T) {
	r := TInterval(v1(t), 0.95)
	near(t, "t", r.T, 5.649766, 1e-6)
	near(t, "p", r.P, 0.00077467, 1e-8)
	near(t, "low", r.Low, 0.02564028, 1e-8)
	near(t, "high", r.High, 0.06255171, 1e-8)
	near(t, "quantile", tQuantile(7, 0.975), 2.36462425, 1e-8)
	must.Equal(t, len(r.Warnings), 0, "eight blocks warn: %v", r.Warnings)
	five := TInterval(v1(t)[:5], 0.95)
	must.True(t, len(five.Warnings) == 1, "five blocks: warnings %v, want the remark on normality", five.Warnings)
}

func TestTIntervalV2(t *testing.T) {
	r := TInterval(v2(), 0.90)
	near(t, "mean", r.Estimate, 0.0005, 1e-12)
	near(t, "s", r.S, 0.00641613, 1e-8)
	near(t, "low", r.Low, -0.00321931, 1e-8)
	near(t, "high", r.High, 0.00421931, 1e-8)
	const m = 0.02 // the section's p values are for the bound itself, not for ln 1.02
	se := r.S / math.Sqrt(10)
	near(t, "p against -m", studentCDF(9, -(r.Estimate+m)/se), 1.6418e-6, 1e-9)
	near(t, "p against +m", studentCDF(9, (r.Estimate-m)/se), 2.4871e-6, 1e-9)
}

func TestTIntervalOfEqualDifferences(t *testing.T) {
	r := TInterval([]float64{0.1, 0.1, 0.1}, 0.95)
	must.True(t, r.P == 0 && math.IsInf(r.T, 1) && r.Low == r.High, "equal differences: %+v", r)
	z := TInterval([]float64{0, 0, 0}, 0.95)
	must.True(t, z.P == 1 && z.T == 0, "zeros: %+v", z)
	one := TInterval([]float64{1}, 0.95)
	must.True(t, math.IsInf(one.Low, -1) && one.P == 1, "one block: %+v", one)
}

func TestHolm(t *testing.T) {
	nearAll(t, "adjusted", Holm([]float64{0.012, 0.034, 0.001, 0.20, 0.049}),
		[]float64{0.048, 0.102, 0.005, 0.200, 0.102}, 1e-12)
	nearAll(t, "capped", Holm([]float64{0.9, 0.8}), []float64{1, 1}, 0)
}

func TestMinBlocks(t *testing.T) {
	want := []int{6, 7, 7, 8, 8, 8, 9, 9, 9, 9, 9, 9}
	for i, w := range want {
		must.Equal(t, MinBlocks(i+1, 0.05), w, "MinBlocks(%d)", i+1)
	}
}

// A test of what is no number has no result, and above all not p = 0.
func TestNoNumbersNoTest(t *testing.T) {
	for _, odd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		d := []float64{.05, .04, odd, .06, .05, .04, .05, .06}
		must.Equal(t, SignFlip(d, nil), 1, "%v: sign flips say p", odd)
		_, p, ok := SignedRank(d)
		must.True(t, !ok && p == 1, "%v: signed ranks say p = %v", odd, p)
		if r := TInterval(d, 0.95); r.P != 1 || !math.IsInf(r.Low, -1) || !math.IsInf(r.High, 1) || len(r.Warnings) == 0 {
			t.Errorf("%v: %+v", odd, r)
		}
		r := HodgesLehmann(d, 0.95)
		must.True(t, r.K == 0 && math.IsInf(r.Low, -1) && len(r.Warnings) != 0, "%v: %+v", odd, r)
		b := TBound(d, 0.95)
		must.True(t, math.IsInf(b, -1), "%v: bound %v", odd, b)
		k := Kendall(d)
		must.True(t, k.P == 1, "%v: trend %+v", odd, k)
	}
}
