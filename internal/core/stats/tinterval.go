package stats

import (
	"fmt"
	"math"
)

// TResult is Student's interval for the mean of the differences.
type TResult struct {
	N        int
	Estimate float64 // mean
	S        float64 // standard deviation, divisor n−1
	Interval
	T        float64 // mean / (S/√n); infinite if S is 0
	P        float64 // two-sided, against no difference
	Warnings []string
}

// TInterval returns mean ± t s/√n (statistics.md section 4.3). It needs two values, is used
// from three on, and is the only interval for 3, 4 and 5 blocks; it assumes roughly normal
// differences and then warns about that. Below 6 blocks it is only a description: with a
// position effect of 8 % a nominal 95 % interval of 3 blocks covers 77 %.
func TInterval(d []float64, level float64) TResult {
	n := len(d)
	r := TResult{N: n, Estimate: Mean(d), S: StdDev(d), Interval: Unbounded(), T: math.NaN(), P: 1}
	if n < 2 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d blocks give no interval", n))
		return r
	}
	if !allFinite(d) {
		r.Estimate, r.S = math.NaN(), math.NaN()
		r.Warnings = append(r.Warnings, notFinite)
		return r
	}
	se := r.S / math.Sqrt(float64(n))
	half := tQuantile(n-1, (1+level)/2) * se
	r.Interval = Interval{Low: r.Estimate - half, High: r.Estimate + half, Confidence: level}
	if n < RankBlocks {
		r.Warnings = append(r.Warnings, "too few blocks for more than a rough idea: 6 and more give a sound one")
	}
	switch {
	case se > 0:
		r.T = r.Estimate / se
		r.P = 2 * studentCDF(n-1, -math.Abs(r.T))
	case r.Estimate != 0:
		r.T, r.P = math.Inf(int(math.Copysign(1, r.Estimate))), 0
		r.Warnings = append(r.Warnings, "all block differences are equal")
	default:
		r.T = 0
		r.Warnings = append(r.Warnings, "all block differences are 0")
	}
	return r
}

// TBound returns the one-sided lower bound of the mean at the given level, for guards and
// plateaus, −Inf for fewer than two values or if one is not finite.
func TBound(d []float64, level float64) float64 {
	n := len(d)
	if n < 2 || !allFinite(d) {
		return math.Inf(-1)
	}
	return Mean(d) - tQuantile(n-1, level)*StdDev(d)/math.Sqrt(float64(n))
}
