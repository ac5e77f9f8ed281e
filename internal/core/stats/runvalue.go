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
