package stats

import (
	"math"
	"testing"

	"linerate/internal/must"
)

// Reference data V1 and V2 of statistics.md sections 3 and 4.4.
func v1Baseline() []float64 {
	return []float64{941.2, 902.5, 955.0, 921.4, 880.3, 910.6, 934.8, 899.9}
}

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

func v2() []float64 {
	return []float64{.004, -.011, .008, .002, -.006, .009, -.003, .001, .005, -.004}
}

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

// difference is the block difference D of a metric that is never 0.
func difference(candidate, baseline float64, s Sense) (float64, bool) {
	c, okC := LogValue(candidate, s)
	b, okB := LogValue(baseline, s)
	return c - b, okC && okB
}

// HodgesLehmann and SignedRank are those of ranks that serve once.
func HodgesLehmann(d []float64, level float64) RankResult {
	return NewRanks(d, nil).HodgesLehmann(level)
}
func SignedRank(d []float64) (int, float64, bool) { return NewRanks(d, nil).SignedRank() }
