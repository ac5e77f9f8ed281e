package stats

import (
	"fmt"
	"math"
	"slices"
)

// PlateauResult is the smallest level that is good enough, by index.
type PlateauResult struct {
	Decided  bool
	Level    int       // the answer if Decided
	From, To int       // the range of possible answers; both Level if Decided
	Low      []float64 // per level, its least lower bound against any other level
	Warnings []string
	least    float64 // of Low, for a level to pass
}

// Passes reports whether level j is provably within the tolerance of every other.
func (r PlateauResult) Passes(j int) bool { return j < len(r.Low) && r.Low[j] >= r.least }

// Plateau finds the smallest of at least two levels that is within tolerance (0.05 is 5 %) of
// every other one (statistics.md section 8; intersection–union after Berger, Technometrics 24,
// 1982). logs holds one row per complete block with one log value per level, levels ascending,
// high values good. Each level is tested against every other at the one-sided level confidence,
// and all must hold, so no correction is needed; no monotonicity is assumed.
func Plateau(logs [][]float64, tolerance, confidence float64) PlateauResult {
	if len(logs) < 2 || len(logs[0]) < 2 {
		r := PlateauResult{Warnings: []string{"a plateau needs two levels in two complete blocks"}}
		if len(logs) > 0 {
			r.To = max(0, len(logs[0])-1)
		}
		return r
	}
	levels, least := len(logs[0]), math.Log1p(-tolerance)
	if slices.ContainsFunc(logs, func(row []float64) bool { return len(row) != levels || !allFinite(row) }) {
		return PlateauResult{To: levels - 1, Warnings: []string{"a plateau needs a number of every level in every block"}}
	}
	r := PlateauResult{Low: make([]float64, levels), least: least}
	if len(logs) < RankBlocks {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d blocks give a rough idea only", len(logs)))
	}
	for j := range levels {
		r.Low[j] = math.Inf(1)
		for i := range levels {
			if i != j {
				r.Low[j] = min(r.Low[j], TBound(levelDifferences(logs, j, i), confidence))
			}
		}
	}
	for j := range r.Low {
		if r.Passes(j) {
			r.Decided, r.Level, r.From, r.To = true, j, j, j
			return r
		}
	}
	r.To = bestLevel(logs)
	for r.From < r.To && upperBound(levelDifferences(logs, r.From, r.To), confidence) < least {
		r.From++
	}
	return r
}

func levelDifferences(logs [][]float64, j, i int) []float64 {
	d := make([]float64, len(logs))
	for b, row := range logs {
		d[b] = row[j] - row[i]
	}
	return d
}

func upperBound(d []float64, confidence float64) float64 {
	negated := make([]float64, len(d))
	for i, v := range d {
		negated[i] = -v
	}
	return -TBound(negated, confidence)
}

func bestLevel(logs [][]float64) int {
	best, top := 0, math.Inf(-1)
	for j := range logs[0] {
		sum := 0.0
		for _, row := range logs {
			sum += row[j]
		}
		if sum > top {
			best, top = j, sum
		}
	}
	return best
}
