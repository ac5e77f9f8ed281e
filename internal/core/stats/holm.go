package stats

import (
	"cmp"
	"math"
	"slices"
)

// Holm returns the p values adjusted for their number, in the order given: a
// hypothesis is rejected where its adjusted p is below alpha, and the chance of
// any false rejection is then at most alpha (Holm, Scand. J. Stat. 6, 1979;
// statistics.md section 6.1).
func Holm(p []float64) []float64 {
	rank := make([]int, len(p))
	for i := range rank {
		rank[i] = i
	}
	slices.SortStableFunc(rank, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	out, floor := make([]float64, len(p)), 0.0
	for i, j := range rank {
		floor = max(floor, min(1, float64(len(p)-i)*p[j]))
		out[j] = floor
	}
	return out
}

// MinBlocks returns the least number of blocks with which any exact test of
// the given number of comparisons can decide at alpha: 1 + ⌈log2(m/alpha)⌉
// (statistics.md section 6.3).
func MinBlocks(comparisons int, alpha float64) int {
	return 1 + int(math.Ceil(math.Log2(float64(max(1, comparisons))/alpha)))
}
