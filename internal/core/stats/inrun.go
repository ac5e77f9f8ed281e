package stats

import (
	"math"
	"slices"
	"time"
)

// StallResult says how often and how long a run stalled.
type StallResult struct {
	Median  float64       // of the interval values
	At      []int         // stalled intervals, by index
	Count   int           // stalls: neighbouring stalled intervals are one
	Longest time.Duration // of one stall
	Total   time.Duration // of all stalls
	Share   float64       // Total of the measured time, 0…1

	Warnings []string
}

// Stalls finds the intervals of a measured window whose value is below StallBelow of the run's
// median (statistics.md section 10.1). It is a rule, not a test, for values that are not
// negative and good if high. It skips intervals without length.
func Stalls(window []RunInterval) StallResult {
	var values []float64
	measured := time.Duration(0)
	for _, iv := range window {
		if iv.Length > 0 {
			values = append(values, iv.Value)
			measured += iv.Length
		}
	}
	r := StallResult{Median: Median(values)}
	if !(r.Median > 0) {
		r.Warnings = append(r.Warnings, "the median of the run is not positive: no stall can be seen")
		return r
	}
	current := time.Duration(0) // of the present stall
	for i, iv := range window {
		switch {
		case iv.Length <= 0:
			continue
		case !(iv.Value < StallBelow*r.Median):
			current = 0
			continue
		case current == 0:
			r.Count++
		}
		current += iv.Length
		r.At, r.Total, r.Longest = append(r.At, i), r.Total+iv.Length, max(r.Longest, current)
	}
	r.Share = r.Total.Seconds() / measured.Seconds()
	return r
}

// SpikesResult lists the intervals of a run that are far from its median.
type SpikesResult struct {
	Median, Scale float64   // Scale is one unit of Z, in units of the values
	Z             []float64 // distance from the median, one per interval
	At            []int     // intervals with |Z| above SpikeBeyond, by index

	Warnings []string
}

// Spikes finds the values of a measured window, in any unit, that lie more than SpikeBeyond
// scales from the run's median (Iglewicz and Hoaglin, 1993; statistics.md section 10.2). The
// scale is the median absolute deviation, made comparable with a standard deviation, but at
// least SpikeFloor of the median, so that very steady runs raise no alarm.
func Spikes(x []float64) SpikesResult {
	r := SpikesResult{Median: Median(x)}
	r.Scale = max(Scatter(x), SpikeFloor*r.Median)
	if !(r.Scale > 0) {
		r.Warnings = append(r.Warnings, "the values have no scale: no spike can be seen")
		return r
	}
	r.Z = make([]float64, len(x))
	for i, v := range x {
		r.Z[i] = (v - r.Median) / r.Scale
		if math.Abs(r.Z[i]) > SpikeBeyond {
			r.At = append(r.At, i)
		}
	}
	return r
}

// RunInterval is one reporting step of a run with its mean value, for example bit/s over one
// second. Start counts from the start of the run.
type RunInterval struct {
	Start, Length time.Duration
	Value         float64
}

// MSER returns the number of leading values whose removal leaves the steadiest rest, 0…⌊N/2⌋,
// and the criterion for each such number (White, Simulation 69, 1997; statistics.md section
// 1.1). It is a check of the omitted time, never a reason to truncate one run by its own data.
// Equal values are steady from the first on.
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
		if slices.Min(rest) != slices.Max(rest) { // otherwise the rounded mean would leave a residue
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
