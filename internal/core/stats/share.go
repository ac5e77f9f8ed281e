package stats

import "gonum.org/v1/gonum/mathext"

// ShareBounds returns the lower and the upper bound of a share with k hits in n trials, n > 0:
// each with the given confidence. Without a hit that is the rule of three. The trials are
// assumed independent (Clopper and Pearson 1934, Biometrika 26).
func ShareBounds(k, n int64, confidence float64) (low, high float64) {
	hits, misses := float64(k), float64(n-k)
	low, high = 0, 1
	if k > 0 {
		low = mathext.InvRegIncBeta(hits, misses+1, 1-confidence)
	}
	if k < n {
		high = mathext.InvRegIncBeta(hits+1, misses, confidence)
	}
	return low, high
}

// AtMost returns the probability of k or fewer successes in n trials, each of probability p, 0
// ≤ p ≤ 1.
func AtMost(k, n int64, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}
