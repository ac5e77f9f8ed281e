package stats

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"linerate/internal/must"
)

func drawDiffs(t *rapid.T, least, most int) []float64 {
	return rapid.SliceOfN(rapid.Float64Range(-0.5, 0.5), least, most).Draw(t, "d")
}

func negated(d []float64) []float64 {
	out := make([]float64, len(d))
	for i, v := range d {
		out[i] = -v
	}
	return out
}

func same(t *rapid.T, what string, a, b float64) {
	t.Helper()
	must.Need(t, math.Abs(a-b) <= 1e-9 || a == b, "%s: %v and %v", what, a, b)
}

func TestLawOrderOfBlocksDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDiffs(t, 3, 12)
		shuffled := rapid.Permutation(d).Draw(t, "shuffled")
		same(t, "sign flip", SignFlip(d, nil), SignFlip(shuffled, nil))
		a, b := HodgesLehmann(d, 0.95), HodgesLehmann(shuffled, 0.95)
		same(t, "rank estimate", a.Estimate, b.Estimate)
		same(t, "rank low", a.Low, b.Low)
		same(t, "rank high", a.High, b.High)
		x, y := TInterval(d, 0.95), TInterval(shuffled, 0.95)
		same(t, "t low", x.Low, y.Low)
		same(t, "t high", x.High, y.High)
	})
}

func TestLawSwapNegates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDiffs(t, 3, 12)
		n := negated(d)
		same(t, "sign flip", SignFlip(d, nil), SignFlip(n, nil))
		a, b := HodgesLehmann(d, 0.95), HodgesLehmann(n, 0.95)
		same(t, "rank estimate", a.Estimate, -b.Estimate)
		same(t, "rank low", a.Low, -b.High)
		same(t, "rank high", a.High, -b.Low)
		x, y := TInterval(d, 0.95), TInterval(n, 0.95)
		same(t, "t low", x.Low, -y.High)
		up, down := NewEvidence(0.03, 0.05), NewEvidence(0.03, 0.05)
		for i := range d {
			up.Add(d[i])
			down.Add(n[i])
		}
		delta := rapid.Float64Range(-0.2, 0.2).Draw(t, "delta")
		same(t, "evidence", up.LogUp(delta), down.LogDown(-delta))
		same(t, "anytime low", up.Interval(0).Low, -down.Interval(0).High)
	})
}

func TestLawShiftMovesIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDiffs(t, 6, 12)
		c := rapid.Float64Range(-0.5, 0.5).Draw(t, "c")
		moved := make([]float64, len(d))
		e, f := NewEvidence(0.03, 0.05), NewEvidence(0.03, 0.05)
		for i := range d {
			moved[i] = d[i] + c
			e.Add(d[i])
			f.Add(moved[i])
		}
		a, b := HodgesLehmann(d, 0.95), HodgesLehmann(moved, 0.95)
		same(t, "rank low", a.Low+c, b.Low)
		same(t, "rank high", a.High+c, b.High)
		x, y := TInterval(d, 0.95), TInterval(moved, 0.95)
		same(t, "t low", x.Low+c, y.Low)
		same(t, "t high", x.High+c, y.High)
		same(t, "anytime low", e.Interval(0).Low+c, f.Interval(0).Low)
		same(t, "anytime high", e.Interval(0).High+c, f.Interval(0).High)
	})
}

func TestLawEvidenceIsBoundedAndMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := NewEvidence(0.03, 0.05, 0.01)
		last := []Interval{Unbounded(), Unbounded()}
		for i, d := range drawDiffs(t, 1, 30) {
			e.Add(d)
			most := float64(i+1)*math.Ln2 + 1e-9
			must.Need(t, e.LogUp(0) <= most && e.LogDown(0) <= most, "n %d: E above 2^n", i+1)
			must.Need(t, e.LogUp(-0.1) >= e.LogUp(0.1)-1e-12 && e.LogDown(-0.1) <= e.LogDown(0.1)+1e-12, "E is not monotone in delta")
			for j := range last {
				now := e.Interval(j)
				must.Need(t, now.Low >= last[j].Low-1e-12 && now.High <= last[j].High+1e-12, "n %d: %+v after %+v", i+1, now, last[j])
				last[j] = now
			}
			must.Need(t, last[1].Low <= last[0].Low+1e-12 && last[1].High >= last[0].High-1e-12, "99 %% %+v inside 95 %% %+v", last[1], last[0])
		}
	})
}

// The game is fair: E⁺ averages 1 over all sign vectors.
func TestLawEvidenceAveragesToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDiffs(t, 1, 10)
		total := 0.0
		for signs := range 1 << len(d) {
			e := Evidence{diffs: slices.Clone(d)}
			for i := range d {
				if signs>>i&1 == 1 {
					e.diffs[i] = -d[i]
				}
			}
			total += math.Exp(e.LogUp(0))
		}
		same(t, "mean of E+", total/float64(int(1)<<len(d)), 1)
	})
}

func TestLawScaleDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Float64Range(1, 1e11).Draw(t, "candidate")
		b := rapid.Float64Range(1, 1e11).Draw(t, "baseline")
		factor := rapid.Float64Range(1e-3, 1e3).Draw(t, "factor")
		d, _ := difference(a, b, HigherIsBetter)
		e, _ := difference(factor*a, factor*b, HigherIsBetter)
		same(t, "difference", d, e)
	})
}

func TestLawSignedRankMatchesSignFlipOfRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		signs := rapid.Uint32().Draw(t, "signs")
		ranks := make([]float64, n)
		for i := range ranks {
			ranks[i] = float64(i + 1)
			if signs>>i&1 == 1 {
				ranks[i] = -ranks[i]
			}
		}
		_, p, ok := SignedRank(ranks)
		must.Need(t, ok, "distinct ranks refused")
		same(t, "p", p, SignFlip(ranks, nil))
	})
}

func TestLawHolmNeverBelowRaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 8).Draw(t, "p")
		adjusted := Holm(p)
		for i := range p {
			must.Need(t, !(adjusted[i] < p[i]) && (!(adjusted[i] > min(1, float64(len(p))*p[i])+1e-12) || !(adjusted[i] > slices.Max(p)*float64(len(p)))), "p %v adjusted %v", p, adjusted)
			for j := range p {
				must.Need(t, p[i] >= p[j] || adjusted[i] <= adjusted[j], "order changed: %v to %v", p, adjusted)
			}
		}
	})
}

func TestLawPseudoMedianIsTheMedianOfWalshAverages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.SampledFrom([]float64{-1, -0.25, 0, 0, 0.125, 0.5, 3}), 1, 30).Draw(t, "d")
		d = append(d, drawDiffs(t, 0, 20)...)
		same(t, "estimate", PseudoMedian(d), sortedMedian(walshAverages(d)))
	})
}

// Reference data V1 and V2 of statistics.md sections 3 and 4.4.
func v1Baseline() []float64 { return []float64{941.2, 902.5, 955.0, 921.4, 880.3, 910.6, 934.8, 899.9} }

func v1Candidate() []float64 {
	return []float64{981.7, 949.1, 969.4, 990.2, 901.0, 968.3, 955.5, 962.0}
}

func v1(t testing.TB) []float64 {
	t.Helper()
	base, cand := v1Baseline(), v1Candidate()
	d := make([]float64, len(base))
	for i := range d {
		v, ok := difference(cand[i], base[i], HigherIsBetter)
		must.Need(t, ok, "no difference of %v and %v", cand[i], base[i])
		d[i] = v
	}
	return d
}

func v2() []float64 { return []float64{.004, -.011, .008, .002, -.006, .009, -.003, .001, .005, -.004} }

// near fails unless got is within tolerance of want.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	must.True(t, !math.IsNaN(got) && math.Abs(got-want) <= tolerance, "%s = %.9g, want %.9g ± %g", what, got, want, tolerance)
}

// nearAll compares slices element by element.
func nearAll(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	must.Need(t, len(got) == len(want), "%s has %d values, want %d: %v", what, len(got), len(want), got)
	for i := range got {
		if math.IsNaN(got[i]) || math.Abs(got[i]-want[i]) > tolerance {
			t.Errorf("%s[%d] = %.9g, want %.9g ± %g", what, i, got[i], want[i], tolerance)
		}
	}
}

// difference returns the block difference D of a metric that is never 0.
func difference(candidate, baseline float64, s Sense) (float64, bool) {
	c, okC := LogValue(candidate, s)
	b, okB := LogValue(baseline, s)
	return c - b, okC && okB
}

// HodgesLehmann computes the result from fresh ranks.
func HodgesLehmann(d []float64, level float64) RankResult {
	return NewRanks(d, nil).HodgesLehmann(level)
}
func SignedRank(d []float64) (int, float64, bool) { return NewRanks(d, nil).SignedRank() }

// TestDistributions compares our distributions with gonum's, bit for bit: earlier verdicts must
// not change.
func TestDistributions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, p, x := rapid.IntRange(1, 2000).Draw(t, "n"), rapid.Float64Range(1e-9, 1-1e-9).Draw(t, "p"), rapid.Float64Range(-50, 50).Draw(t, "x")
		student := distuv.StudentsT{Sigma: 1, Nu: float64(n)}
		for name, pair := range map[string][2]float64{
			"t, CDF":         {studentCDF(n, x), student.CDF(x)},
			"t, quantile":    {tQuantile(n, p), student.Quantile(p)},
			"chi, quantile":  {chiSquaredQuantile(float64(n), p), distuv.ChiSquared{K: float64(n)}.Quantile(p)},
			"normal, CDF":    {normalCDF(x), distuv.UnitNormal.CDF(x)},
			"t, middle":      {tQuantile(n, 0.5), student.Quantile(0.5)},
			"t, CDF at zero": {studentCDF(n, 0), student.CDF(0)},
		} {
			must.Need(t, math.Float64bits(pair[0]) == math.Float64bits(pair[1]), "%s at n %d, p %v, x %v: %v, want %v", name, n, p, x, pair[0], pair[1])
		}
	})
}
