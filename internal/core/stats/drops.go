package stats

import (
	"fmt"
	"math"
)

// FeatureKind says how a message-size curve continues after a fall.
type FeatureKind int

// The kinds of feature.
const (
	Cliff FeatureKind = iota // all larger sizes are slow too
	Notch                    // larger sizes recover
)

// Feature is a stretch of neighbouring sizes that are slower than a smaller one.
type Feature struct {
	Kind      FeatureKind
	Reference int     // the smaller size that From is compared with
	From, To  int     // first and last slow size
	Fall      float64 // mean log ratio of Reference to From, positive
	Least     float64 // its one-sided lower bound, positive
}

// DropsResult says where a message-size curve falls. Sizes are indices; the slices have one
// entry per size, of which the first is meaningless.
type DropsResult struct {
	Sweeps    int       // complete sweeps behind it
	Reference []int     // size with the greatest median among the smaller ones
	Fall      []float64 // mean log ratio of the reference to this size
	Least     []float64 // its lower bound, −Inf if two sweeps are missing
	Features  []Feature // candidates: a fresh experiment has to confirm each
	Warnings  []string
}

// Drops finds the cliffs and notches of a message-size curve (statistics.md section 9). logs
// holds one row per sweep with one log rate per size, sizes ascending; fall is the least share
// of the rate that counts as a drop, below 1 (DropLeast); confidence is that of the whole
// curve, shared by its sizes (Bonferroni). Each size is compared with the smaller size of the
// greatest median rate, in the same sweeps. A row of another length than the first, or with a
// value that is not finite, is left out with a warning. Fewer than DropSweeps sweeps give
// numbers, but no feature.
func Drops(logs [][]float64, fall, confidence float64) DropsResult {
	rows, warnings := completeRows(logs)
	r := DropsResult{Sweeps: len(rows), Warnings: warnings}
	if len(rows) == 0 || len(rows[0]) < 2 {
		r.Warnings = append(r.Warnings, "a curve needs two sizes in a complete sweep")
		return r
	}
	sizes := len(rows[0])
	level := 1 - (1-confidence)/float64(sizes-1)
	r.Reference = make([]int, sizes)
	r.Fall, r.Least = make([]float64, sizes), make([]float64, sizes)
	top := columnMedian(rows, 0)
	for j := 1; j < sizes; j++ {
		best := r.Reference[j-1]
		if m := columnMedian(rows, j-1); m > top {
			best, top = j-1, m
		}
		d := levelDifferences(rows, best, j)
		r.Reference[j], r.Fall[j], r.Least[j] = best, Mean(d), TBound(d, level)
	}
	if len(rows) < DropSweeps {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d sweeps: cliffs and notches need %d", len(rows), DropSweeps))
		return r
	}
	r.Features = r.features(-math.Log1p(-fall))
	return r
}

// features joins neighbouring sizes that fall by more than least.
func (r *DropsResult) features(least float64) []Feature {
	var found []Feature
	inside := false
	for j := 1; j < len(r.Least); j++ {
		drop := r.Least[j] > least
		switch {
		case drop && inside:
			found[len(found)-1].To = j
		case drop:
			found = append(found, Feature{Kind: Notch, Reference: r.Reference[j], From: j, To: j,
				Fall: r.Fall[j], Least: r.Least[j]})
		}
		inside = drop
	}
	if inside {
		found[len(found)-1].Kind = Cliff
	}
	return found
}

// completeRows returns the rows that are as long as the first and finite.
func completeRows(logs [][]float64) (rows [][]float64, warnings []string) {
	for _, row := range logs {
		if len(row) == len(logs[0]) && allFinite(row) {
			rows = append(rows, row)
		}
	}
	if left := len(logs) - len(rows); left > 0 {
		warnings = append(warnings, fmt.Sprintf("%d incomplete sweeps left out", left))
	}
	return rows, warnings
}

func columnMedian(rows [][]float64, j int) float64 {
	column := make([]float64, len(rows))
	for i, row := range rows {
		column[i] = row[j]
	}
	return Median(column)
}
