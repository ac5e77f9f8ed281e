package stats

import "math"

// TheilSen returns the median of all pairwise slopes of y against x, which outliers hardly
// affect (Theil 1950; Sen 1968; statistics.md section 2.2). It skips pairs with equal x; NaN if
// no pair is left.
func TheilSen(x, y []float64) float64 {
	var slopes []float64
	for i := range x {
		for j := i + 1; j < len(x); j++ {
			if x[i] != x[j] {
				slopes = append(slopes, (y[j]-y[i])/(x[j]-x[i]))
			}
		}
	}
	return Median(slopes)
}

// Trend is Kendall's test of a series for a rise or fall over its order.
type Trend struct {
	S   int     // pairs that rise minus pairs that fall
	Tau float64 // S over the number of pairs, −1…1; NaN for fewer than two values
	P   float64 // exact, two-sided
}

// Kendall returns the trend of y (Kendall 1975; statistics.md section 2.2). p is from the
// distribution without ties; ties only lower |S|, so p is then conservative. If a value is not
// finite, there is no trend.
func Kendall(y []float64) Trend {
	n := len(y)
	t := Trend{P: 1, Tau: math.NaN()}
	if n < 2 || !allFinite(y) {
		return t
	}
	for i, a := range y {
		for _, b := range y[i+1:] {
			switch {
			case b > a+slack:
				t.S++
			case b < a-slack:
				t.S--
			}
		}
	}
	pairs := n * (n - 1) / 2
	t.Tau = float64(t.S) / float64(pairs)
	t.P = 0
	for inversions, p := range inversionDistribution(n) {
		if s := pairs - 2*inversions; max(s, -s) >= max(t.S, -t.S) {
			t.P += p
		}
	}
	t.P = min(1, t.P)
	return t
}

// inversionDistribution returns the probability of each number of inversions of a random
// permutation of n: the coefficients of Π (1 + x + … + x^(k−1))/k, each factor a sliding sum,
// so that it takes about n³/6 steps.
func inversionDistribution(n int) []float64 {
	p := []float64{1}
	for k := 2; k <= n; k++ {
		next := make([]float64, len(p)+k-1)
		sum := 0.0
		for i := range next {
			if i < len(p) {
				sum += p[i]
			}
			if i >= k {
				sum -= p[i-k]
			}
			next[i] = max(0, sum) / float64(k) // rounding may give a negative number
		}
		p = next
	}
	return p
}
