package stats

import (
	"math"
)

// mostBlocks limits every answer in blocks; a million blocks is "never".
const mostBlocks = 1_000_000

// Noise is the standard deviation of a block difference without any real difference.
type Noise struct {
	Pairs int     // number of differences
	Sigma float64 // root mean square, NaN without pairs
	Upper float64 // upper bound for planning
}

// NullNoise returns the noise from differences d of a setting with itself, with
// the 80 % upper bound sqrt(Σd²/χ²) (statistics.md section 7.1).
func NullNoise(d []float64) Noise {
	if len(d) == 0 {
		return Noise{Sigma: math.NaN(), Upper: math.NaN()}
	}
	ss, n := 0.0, float64(len(d))
	for _, v := range d {
		ss += v * v
	}
	chi := chiSquaredQuantile(n, NoiseQuantile)
	return Noise{Pairs: len(d), Sigma: math.Sqrt(ss / n), Upper: math.Sqrt(ss / chi)}
}

// LeastEffect returns the smallest gain, in standard deviations of a block difference, that n ≥
// 2 blocks detect with the given power.
func LeastEffect(n int, power, alpha float64) float64 {
	u, q := spreads(n), tQuantile(n-1, 1-alpha/2)
	low, high := 0.0, 1.0
	for directionPower(u, n, high, q) < power && high < 1e6 {
		low, high = high, 2*high
	}
	for range evidenceSteps {
		mid := (low + high) / 2
		if directionPower(u, n, mid, q) < power {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// ExpectedBlocks returns the approximate number of blocks in which the sequential mode detects
// a gain g, or equivalence at margin g, at noise sigma: max(6, (4σ/g)²) (statistics.md section
// 7.3); a million means never.
func ExpectedBlocks(sigma, g float64) int {
	return max(RankBlocks, blocks(projected(sigma, g)))
}

// SequentialLeast returns the smallest gain that the sequential mode should detect within n ≥ 1
// blocks: the inverse of ExpectedBlocks.
func SequentialLeast(n int, sigma float64) float64 { return 4 * sigma / math.Sqrt(float64(n)) }

// MoreBlocks returns the approximate number of further blocks that decide a comparison with n
// blocks so far, given its estimate and standard deviation s, margin m, and floor from
// MinBlocks (statistics.md section 7.3). It is at least 1 and never a promise.
func MoreBlocks(estimate, s, margin float64, n, floor int) int {
	least := max(1, floor-n)
	if n < 2 || math.IsNaN(s) {
		return least
	}
	total := projected(s, math.Abs(estimate))
	if room := margin - math.Abs(estimate); room > 0 {
		total = min(total, projected(s, room))
	}
	return max(least, blocks(total)-n)
}

// projected returns (4s/g)², 0 without noise.
func projected(s, g float64) float64 {
	if s == 0 {
		return 0
	}
	return (4 * s / g) * (4 * s / g)
}

func blocks(n float64) int { return int(math.Ceil(min(n, mostBlocks))) }

// directionPower averages over u the probability that the t statistic lies outside ±q. It
// avoids a non-central t routine, which fails for large arguments.
func directionPower(u []float64, n int, ratio, q float64) float64 {
	shift, total := ratio*math.Sqrt(float64(n)), 0.0
	for _, v := range u {
		total += normalCDF(shift-q*v) + normalCDF(-q*v-shift)
	}
	return total / float64(len(u))
}

// spreads returns the midpoint quantiles of s/σ for n blocks.
func spreads(n int) []float64 {
	u := make([]float64, powerMidpoints)
	for i := range u {
		u[i] = math.Sqrt(chiSquaredQuantile(float64(n-1), (float64(i)+0.5)/powerMidpoints) / float64(n-1))
	}
	return u
}
