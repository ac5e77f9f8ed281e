package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"linerate/internal/must"
)

func TestEvidenceV1(t *testing.T) {
	e := NewEvidence(LogMargin(3), 0.05)
	up := []float64{1.719045, 3.088324, 5.175135, 9.851942, 17.969298, 34.774550, 64.952377, 127.446110}
	down := []float64{0.280955, 0.164477, 0.137962, 0.082078, 0.069066, 0.047790, 0.041461, 0.028781}
	intervals := map[int][2]float64{6: {-0.019761, 0.107340}, 7: {0.013498, 0.072766}, 8: {0.015764, 0.071325}}
	for i, d := range v1(t) {
		e.Add(d)
		near(t, "ln E+", e.LogUp(0), math.Log(up[i]), 1e-6)
		near(t, "E-", math.Exp(e.LogDown(0)), down[i], 1e-6)
		iv := e.Interval(0)
		want, bounded := intervals[i+1]
		if !bounded {
			must.True(t, math.IsInf(iv.Low, -1) && math.IsInf(iv.High, 1), "n %d: %+v, want no bounds", i+1, iv)
			continue
		}
		near(t, "low", iv.Low, want[0], 1e-6)
		near(t, "high", iv.High, want[1], 1e-6)
	}
	near(t, "max", math.Exp(e.Max().Up), 127.446110, 1e-4)
	near(t, "max down starts at 1", e.Max().Down, 0, 0)
}

func TestEvidenceV2(t *testing.T) {
	m := math.Log(1.02)
	// The section itself gives the values for margins of +0.02 and −0.02.
	for _, margin := range []float64{0.02} {
		e := NewEvidence(margin)
		above := []float64{1.581719, 2.765475, 4.638378, 8.334445, 15.632463, 28.211989}
		below := []float64{1.640476, 2.569506, 4.612789, 8.380265, 15.118759, 28.881433}
		for i, d := range v2()[:6] {
			e.Add(d)
			near(t, "E-(+m)", math.Exp(e.LogDown(margin)), above[i], 1e-5)
			near(t, "E+(-m)", math.Exp(e.LogUp(-margin)), below[i], 1e-5)
		}
	}
	e := NewEvidence(m)
	for i, d := range v2() {
		e.Add(d)
		must.Equal(t, e.Max().NotAbove >= math.Log(20) && e.Max().NotBelow >= math.Log(20), i+1 >= 6, "block %d: equivalent", i+1)
	}
}

func TestEvidenceBoundsLargeGains(t *testing.T) {
	e := NewEvidence(0.03, 0.05)
	for range 8 {
		e.Add(5.5) // 64 KiB against 16 MiB of window on a long path
	}
	iv := e.Interval(0)
	must.True(t, iv.Low >= 5 && iv.High <= 6, "interval %+v does not enclose 5.5 closely", iv)
}

func TestEvidenceKeepsLastIntervalWhenContradicted(t *testing.T) {
	e := NewEvidence(0.03, 0.05)
	for range 20 {
		e.Add(0.5)
	}
	before := e.Interval(0)
	for range 200 {
		e.Add(-0.5)
	}
	must.Need(t, e.Contradicted(), "a gain that turned round was not noticed")
	after := e.Interval(0)
	must.True(t, after.Low <= after.High && after.Low >= before.Low && after.High <= before.High, "interval went from %+v to %+v", before, after)
}

// One stalled block costs the size bets their capital for good; the bets on signs win it back
// (statistics.md section 5.1, V3).
func TestEvidenceAfterAStalledBlock(t *testing.T) {
	v3 := []float64{-.217, .05, .045, .062, .048, .055, .051, .047, .058, .06, .052, .049}
	want := []float64{0.100942, 0.138669, 0.193361, 0.280431, 0.410578, 0.619188, 0.953189, 1.498383, 2.418223, 3.977222, 6.634039, 11.225429}
	e := NewEvidence(LogMargin(3))
	for i, d := range v3 {
		e.Add(d)
		near(t, "E+ of V3", math.Exp(e.LogUp(0)), want[i], 1e-6)
	}
	slow := NewEvidence(LogMargin(3))
	for i := range 20 {
		if i == 3 {
			slow.Add(0.24)
		} else {
			slow.Add(-0.05 + 0.001*float64(i%3))
		}
	}
	must.True(t, slow.Max().Down >= math.Log(40), "19 blocks of -5 %% and one of +24 %%: evidence %.1f", math.Exp(slow.Max().Down))
}

// NaN is no evidence, however often it comes.
func TestEvidenceRefusesWhatIsNoNumber(t *testing.T) {
	e := NewEvidence(LogMargin(3), 0.05)
	for _, d := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for range 20 {
			must.Need(t, !e.Add(d), "%v was added", d)
		}
	}
	must.Equal(t, e.Max(), (Extremes{}))
}

// The interval after n blocks is the intersection of those of every prefix: a search after each
// block gives the same.
func TestIntervalIsThatOfEverySearchTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	d := make([]float64, 40)
	for i := range d {
		d[i] = 0.03 + 0.05*rng.NormFloat64()
	}
	together := Unbounded()
	for n := 1; n <= len(d); n++ {
		e := NewEvidence(0.03, 0.05)
		for _, v := range d[:n] {
			e.Add(v)
		}
		level := math.Log(2 / 0.05)
		together.Low = max(together.Low, bisect(-3.5, 3.5, func(x float64) bool { return e.LogUp(x) >= level }))
		together.High = min(together.High, -bisect(-3.5, 3.5, func(x float64) bool { return e.LogDown(-x) >= level }))
		if got := e.Interval(0); !math.IsInf(together.Low, 0) {
			near(t, "low", got.Low, together.Low, 1e-9)
			near(t, "high", got.High, together.High, 1e-9)
		}
	}
}

// LogUp returns ln E⁺(δ) after the last block, the evidence that the gain is
// above δ; LogDown ln E⁻(δ).
func (e *Evidence) LogUp(delta float64) float64   { return e.against(delta, 1) }
func (e *Evidence) LogDown(delta float64) float64 { return e.against(delta, -1) }

func (e *Evidence) against(delta, sign float64) float64 {
	c := fresh()
	for _, d := range e.diffs {
		c.bet(sign * (d - delta))
	}
	return c.log()
}

func TestSignFlip(t *testing.T) {
	near(t, "V1", SignFlip(v1(t), nil), 0.0078125, 0)
	near(t, "five blocks", SignFlip([]float64{0.051, 0.032, 0.047, 0.060, 0.028}, nil), 0.0625, 0)
	near(t, "no blocks", SignFlip(nil, nil), 1, 0)
	near(t, "all zero", SignFlip([]float64{0, 0, 0}, nil), 1, 0)
}

func TestSignFlipDrawsNearExact(t *testing.T) {
	d := append(v2(), v2()...) // 20: the largest number that is enumerated
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

// A test of NaN has no result, and above all not p = 0.
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
