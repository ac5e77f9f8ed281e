package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The edges of a series in which no shift is looked for, and the largest accepted correlation
// (statistics.md section 10.3).
const (
	shiftEdge = 3
	mostPhi   = 0.9
)

// Split is the point at which a series most looks like two levels.
type Split struct {
	At            int     // values before the split; 0 if the series is too short
	Q             float64 // standardised distance between the sides
	Before, After float64 // means of the two sides
}

// BestSplit returns the split of x with the largest standardised sum (Csörgő
// and Horváth, Limit Theorems in Change-Point Analysis, 1997; statistics.md
// section 10.3). It needs six values.
func BestSplit(x []float64) Split {
	n := len(x)
	if n < 2*shiftEdge {
		return Split{}
	}
	m, ss := Mean(x), 0.0
	for _, v := range x {
		ss += (v - m) * (v - m)
	}
	sd := math.Sqrt(ss / float64(n))
	if sd == 0 {
		return Split{}
	}
	best, sum := Split{}, 0.0
	for k := 1; k <= n-shiftEdge; k++ {
		sum += x[k-1] - m
		if k < shiftEdge {
			continue
		}
		if q := math.Abs(sum) / (sd * math.Sqrt(float64(k)*float64(n-k)/float64(n))); q > best.Q {
			best.At, best.Q = k, q
		}
	}
	if best.At > 0 {
		best.Before, best.After = Mean(x[:best.At]), Mean(x[best.At:])
	}
	return best
}

// ShiftLimit returns the critical value of Split.Q for n values with lag-1 correlation phi: the
// 99 % quantile over 2,000 simulated stationary series (statistics.md section 10.3). The same
// generator state gives the same value.
func ShiftLimit(n int, phi float64, rng *rand.Rand) float64 {
	return shiftQuantile(n, phi, ShiftPaths, ShiftQuantile, rng)
}

func shiftQuantile(n int, phi float64, paths int, quantile float64, rng *rand.Rand) float64 {
	q, x := make([]float64, paths), make([]float64, n)
	innovation := math.Sqrt(1 - phi*phi)
	for i := range q {
		x[0] = rng.NormFloat64()
		for t := 1; t < n; t++ {
			x[t] = phi*x[t-1] + innovation*rng.NormFloat64()
		}
		q[i] = BestSplit(x).Q
	}
	slices.Sort(q)
	return q[min(paths-1, int(math.Ceil(quantile*float64(paths)))-1)]
}

// LagOne returns the lag-1 correlation r of x, NaN if x is constant.
func LagOne(x []float64) float64 {
	m, ss, cross := Mean(x), 0.0, 0.0
	for i, v := range x {
		ss += (v - m) * (v - m)
		if i > 0 {
			cross += (v - m) * (x[i-1] - m)
		}
	}
	return cross / ss
}

// Phi returns the lag-1 correlation r of n > 4 values corrected for its bias,
// (n r + 1)/(n − 4), between 0 and 0.9 (Marriott and Pope, Biometrika 41, 1954).
func Phi(r float64, n int) float64 {
	return min(mostPhi, max(0, (float64(n)*r+1)/float64(n-4)))
}
