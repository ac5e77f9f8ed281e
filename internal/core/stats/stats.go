// Package stats computes statistics of linerate's runs: estimates, intervals, tests, evidence,
// and the number of blocks that they need.
//
// Everything is a pure function of slices: no clock, no file, and no random source of its own;
// functions that need one take a generator. The run is the sample and the block difference is
// the observation (Fisher 1935; Hurlbert 1984): seconds inside a run are never counted as
// independent observations.
//
//  1. Intervals of a run become one number per metric.
//  2. The runs of a block become one difference per candidate (LogValue).
//  3. Differences become a test and an interval for a number of blocks fixed
//     beforehand (SignFlip, SignedRank, HodgesLehmann, TInterval), or evidence
//     that may be inspected after every block (Evidence).
//  4. Holm corrects for several candidates.
//  5. LeastEffect, ExpectedBlocks, SequentialLeast and MoreBlocks say which effects
//     are detectable, before and during the measurement.
//
// The formulas and their worked examples are those of statistics.md; the functions give its
// section numbers. Thin or odd samples are results with warnings; verdicts are the task of
// package analysis.
package stats

import (
	"math"
	"slices"
)

// Interval is a range for the gain g with the confidence that it holds. An end is infinite if
// the data do not bound it.
type Interval struct {
	Low, High  float64
	Confidence float64 // achieved, 0…1
}

// Unbounded returns the infinite interval.
func Unbounded() Interval {
	return Interval{Low: math.Inf(-1), High: math.Inf(1), Confidence: 1}
}

// finite reports whether v is neither NaN nor infinite.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// allFinite reports whether every value of x is finite.
func allFinite(x []float64) bool {
	return !slices.ContainsFunc(x, func(v float64) bool { return !finite(v) })
}

// notFinite is the warning for input with values that are not finite.
const notFinite = "a block difference is not a finite number: no test, no interval"

// Summary holds the classic summary statistics of a sample.
type Summary struct {
	N                      int
	Mean, Median, Min, Max float64 // NaN when N is 0
}

// Describe returns the summary of x, in any order.
func Describe(x []float64) Summary {
	if len(x) == 0 {
		nan := math.NaN()
		return Summary{Mean: nan, Median: nan, Min: nan, Max: nan}
	}
	return Summary{N: len(x), Mean: Mean(x), Median: Median(x), Min: slices.Min(x), Max: slices.Max(x)}
}

// Mean returns the arithmetic mean of x, NaN when x is empty.
func Mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// StdDev returns the sample standard deviation of x with divisor n−1, NaN for fewer than two
// values, and exactly 0 if all values are equal.
func StdDev(x []float64) float64 {
	if len(x) < 2 {
		return math.NaN()
	}
	if slices.Min(x) == slices.Max(x) {
		return 0 // the rounded mean would leave a residue
	}
	m, ss := Mean(x), 0.0
	for _, v := range x {
		ss += (v - m) * (v - m)
	}
	return math.Sqrt(ss / float64(len(x)-1))
}

// Median returns the median of x, the mean of the two middle values if their number is even,
// and NaN if x is empty. x is not changed.
func Median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	if !allFinite(x) {
		return sortedMedian(slices.Sorted(slices.Values(x)))
	}
	return middle(slices.Clone(x))
}

// middle returns the median of x, which it reorders: all are finite, and there is one at least.
func middle(x []float64) float64 {
	n := len(x)
	upper := selected(x, n/2)
	if n%2 == 1 {
		return upper
	}
	return (slices.Max(x[:n/2]) + upper) / 2
}

// MedianError is the standard error of a median over that of a mean, for normal noise.
const MedianError = 1.25

// Scatter returns the standard deviation of normal noise that has the median absolute deviation
// of x, 0 if x is empty.
func Scatter(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	middle := Median(x)
	away := make([]float64, len(x))
	for i, v := range x {
		away[i] = math.Abs(v - middle)
	}
	return madScale * Median(away)
}

// MedianInterval returns the narrowest interval between two order statistics, the same number
// from either end, that holds the median with at least confidence level, and its real
// confidence: that of the sign test, without an assumption on the shape (Conover 1999, section
// 3.2). Too few values give their whole range, with its confidence: 6 reach 95 %. Without
// values it is unbounded.
func MedianInterval(x []float64, level float64) Interval {
	n := len(x)
	if n == 0 || !allFinite(x) {
		return Unbounded()
	}
	s := slices.Sorted(slices.Values(x))
	outside, term := 0.0, math.Exp2(1-float64(n)) // 2 P(Binomial(n, 1/2) <= k), and its last term
	out := Interval{Low: s[0], High: s[n-1], Confidence: 1 - term}
	for k := 0; k < (n+1)/2 && 1-outside-term >= level; k++ {
		outside += term
		out = Interval{Low: s[k], High: s[n-1-k], Confidence: 1 - outside}
		term *= float64(n-k) / float64(k+1)
	}
	return out
}

func sortedMedian(s []float64) float64 {
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
