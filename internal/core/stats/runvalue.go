package stats

import (
	"slices"
	"time"
)

// RunInterval is one reporting step of a run with its mean value, for example
// bit/s over one second. Start counts from the start of the run.
type RunInterval struct {
	Start, Length time.Duration
	Value         float64
}

// RunValue returns the run's one number: the time-weighted mean over the
// intervals that start at omit or later (statistics.md section 1). An interval
// that starts inside the warm-up is left out whole, so that no warm-up is ever
// counted. It returns false where nothing was measured.
func RunValue(intervals []RunInterval, omit time.Duration) (float64, bool) {
	sum, window := 0.0, time.Duration(0)
	for _, iv := range intervals {
		if iv.Start < omit || iv.Length <= 0 {
			continue
		}
		sum += iv.Value * iv.Length.Seconds()
		window += iv.Length
	}
	if window == 0 {
		return 0, false
	}
	return sum / window.Seconds(), true
}

// MSER returns the number of leading values whose removal leaves the steadiest
// rest, 0…⌊N/2⌋, and the criterion for each such number (White, Simulation 69,
// 1997; statistics.md section 1.1). It is a check of the omitted time, never a
// reason to truncate one run by its own data. Values that are all equal are steady
// from the first on.
func MSER(x []float64) (truncate int, criterion []float64) {
	n := len(x)
	if n == 0 {
		return 0, nil
	}
	criterion = make([]float64, n/2+1)
	for d := range criterion {
		if d == n {
			break
		}
		rest := x[d:]
		ss := 0.0
		if slices.Min(rest) != slices.Max(rest) { // else the rounded mean would leave a residue
			m := Mean(rest)
			for _, v := range rest {
				ss += (v - m) * (v - m)
			}
		}
		criterion[d] = ss / (float64(len(rest)) * float64(len(rest)))
		if criterion[d] < criterion[truncate] {
			truncate = d
		}
	}
	return truncate, criterion
}
