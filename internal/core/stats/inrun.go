package stats

import (
	"math"
	"time"
)

// StallResult says how often and how long a run stood still.
type StallResult struct {
	Median  float64       // of the interval values
	At      []int         // stalled intervals, by index
	Count   int           // stalls: neighbouring stalled intervals are one
	Longest time.Duration // of one stall
	Total   time.Duration // of all stalls
	Share   float64       // Total of the measured time, 0…1

	Warnings []string
}

// Stalls finds the intervals of a measured window whose value is below
// StallBelow of the run's median (statistics.md section 10.1). It is a rule, not
// a test, for values that are not negative and high where good. Intervals
// without length are passed over.
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
		r.Warnings = append(r.Warnings, "the median of the run is not positive: no stall can be told")
		return r
	}
	current := time.Duration(0) // of the stall that goes on
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

// SpikesResult says which intervals of a run lie far from its median.
type SpikesResult struct {
	Median, Scale float64   // Scale is one unit of Z, in units of the values
	Z             []float64 // distance from the median, one per interval
	At            []int     // intervals with |Z| above SpikeBeyond, by index

	Warnings []string
}

// Spikes finds the values of a measured window, in any unit, that lie more than
// SpikeBeyond scales from the run's median (Iglewicz and Hoaglin, 1993;
// statistics.md section 10.2). The scale is the median absolute deviation, made
// comparable with a standard deviation, but at least SpikeFloor of the median:
// very steady runs raise no alarm.
func Spikes(x []float64) SpikesResult {
	r := SpikesResult{Median: Median(x)}
	away := make([]float64, len(x))
	for i, v := range x {
		away[i] = math.Abs(v - r.Median)
	}
	r.Scale = max(madScale*Median(away), SpikeFloor*r.Median)
	if !(r.Scale > 0) {
		r.Warnings = append(r.Warnings, "the values have no scale: no spike can be told")
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
