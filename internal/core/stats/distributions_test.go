package stats

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// TestDistributions holds ours against gonum's own, bit for bit: verdicts that were
// given with them stay what they are.
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
			if math.Float64bits(pair[0]) != math.Float64bits(pair[1]) {
				t.Fatalf("%s at n %d, p %v, x %v: %v, want %v", name, n, p, x, pair[0], pair[1])
			}
		}
	})
}
