package stats

import (
	"fmt"
	"math"
	"slices"
)

// Group is a set of neighbouring runs.
type Group struct {
	N      int
	Center float64 // median log value
}

// HumpsResult says whether the runs of one setting fall into two groups.
type HumpsResult struct {
	Two       bool
	Low, High Group   // on the two sides of the largest gap
	Gap       float64 // largest distance of neighbouring log values
	Usual     float64 // median distance

	Warnings []string
}

// Humps looks for two groups among the log values of at least HumpRuns runs of
// one setting, in any order (statistics.md section 10.4). Runs, not seconds: it
// is a rule of thumb that makes people look at the points, not a test, and it
// takes nothing away from any estimate. The gap between the groups exceeds
// HumpGaps median gaps, and both groups hold HumpLeast runs. Normal runs without
// groups show them in 9 % of sets of 8 runs and in 25 % of sets of 20, by our own
// simulation, so the words to print are "look at the points".
func Humps(logs []float64) HumpsResult {
	if len(logs) < HumpRuns || !allFinite(logs) {
		return HumpsResult{Warnings: []string{
			fmt.Sprintf("%d runs: two groups are looked for in %d finite values or more", len(logs), HumpRuns)}}
	}
	s := slices.Sorted(slices.Values(logs))
	gaps := make([]float64, len(s)-1)
	for i := range gaps {
		gaps[i] = s[i+1] - s[i]
	}
	r, at := HumpsResult{Usual: Median(gaps), Gap: math.Inf(-1)}, 0
	for i, gap := range gaps {
		if gap > r.Gap {
			r.Gap, at = gap, i+1
		}
	}
	r.Low = Group{N: at, Center: sortedMedian(s[:at])}
	r.High = Group{N: len(s) - at, Center: sortedMedian(s[at:])}
	r.Two = r.Gap > HumpGaps*r.Usual && min(r.Low.N, r.High.N) >= HumpLeast
	if r.Usual == 0 {
		r.Warnings = append(r.Warnings, "most runs have equal values: any gap looks large")
	}
	return r
}
