package stats

import (
	"math"
	"time"
)

// Limits of the length of a run (statistics.md section 11.7).
const (
	leastRun      = 500 * time.Millisecond
	longestRun    = 4 // times the overhead (p)
	runRoundTrips = 20
	steadyWithin  = 0.05 // largest ratio minus one among the intervals of a flow past slow start
	steadyRow     = 3    // number of such intervals in a row
	stillGrows    = 1.25 // ratio of the last two quarters of a run from which it is not steady at its end (p)
	batch         = 5    // intervals per batch mean
	effectShare   = 6    // the effect over the largest spread of a run
	largeEffect   = 0.69 // log ratio, two times, from which largeShare is enough: six pairs of one sign are 98 % likely then
	largeShare    = 4
	leastVariance = 1e-6 // of a mean that a longer run could reach
)

// SlowStart returns how much of the start of a run is slow start: up to and including the first
// interval from which three in a row lie within 5 % of each other, or up to and including three
// whose mean is that of the second half of the run, within 5 % or two standard errors: a flow with
// losses seldom has three alike, and the longer it runs, the later. What waited at the receiver
// for a lost segment arrives with it, so that a low interval and a high one have that mean
// together. It reports false if the run shows no end of it, as one that still grows at its end.
func SlowStart(all []RunInterval) (time.Duration, bool) {
	later := make([]float64, 0, len(all))
	for _, x := range all[len(all)/2:] {
		later = append(later, x.Value)
	}
	mean, near := Mean(later), 0.0
	if n := len(later) / 2; n >= steadyRow && Mean(later[n:]) < stillGrows*Mean(later[:n]) {
		near = max(steadyWithin*mean, 2*StdDev(later)/math.Sqrt(steadyRow))
	}
	for i := range len(all) - steadyRow + 1 {
		low, high, sum := math.Inf(1), math.Inf(-1), 0.0
		for _, x := range all[i : i+steadyRow] {
			low, high, sum = min(low, x.Value), max(high, x.Value), sum+x.Value
		}
		if low > 0 && high <= low*(1+steadyWithin) {
			return all[i].Start + all[i].Length, true
		}
		if last := all[i+steadyRow-1]; math.Abs(sum/steadyRow-mean) < near {
			return last.Start + last.Length, true
		}
	}
	return 0, false
}

// Within returns v_w of a run, in seconds: the part of the variance of the run's log that
// arises inside the run is v_w/D for a measured time of D seconds. It is estimated from the
// means of batches of intervals, so that autocorrelation counts, with the degrees of freedom; 0
// for fewer than two batches.
func Within(all []RunInterval) (v float64, freedom int) {
	var logs []float64
	length := time.Duration(0)
	for ; len(all) >= batch; all = all[batch:] {
		sum, of := 0.0, time.Duration(0)
		for _, x := range all[:batch] {
			sum, of = sum+x.Value*x.Length.Seconds(), of+x.Length
		}
		if sum > 0 {
			logs, length = append(logs, math.Log(sum/of.Seconds())), length+of
		}
	}
	if len(logs) < 2 {
		return 0, 0
	}
	s := StdDev(logs)
	return s * s * length.Seconds() / float64(len(logs)), len(logs) - 1
}

// RunLength returns how long to measure a run: the length with the most precision for the time,
// given the overhead of every run, or less if the effect, a log ratio, is large relative to the
// spread; at least half a second and 20 round trips, at most four times the overhead: longer
// runs save less than a fifth of the time, and more of the shorter ones can end a race sooner.
// between is the variance of a run's log that no length reduces, within is v_w.
func RunLength(overhead time.Duration, between, within, effect float64, rtt time.Duration) time.Duration {
	best := math.Sqrt(overhead.Seconds() * within / between)
	spread := effect / effectShare
	if effect >= largeEffect {
		spread = effect / largeShare
	}
	enough := within / max(spread*spread-between, leastVariance)
	least := max(leastRun, runRoundTrips*rtt)
	seconds := min(best, enough, longestRun*overhead.Seconds())
	return max(least, time.Duration(seconds*float64(time.Second)))
}
