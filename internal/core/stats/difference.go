package stats

import (
	"cmp"
	"math"
	"slices"

	"linerate/internal/core/units"
)

// Sense says which way a metric is good.
type Sense int

// The senses.
const (
	HigherIsBetter Sense = iota // goodput
	LowerIsBetter               // round trip, CPU per Gbit
)

// LogValue returns ln y for a metric whose high values are good and −ln y for
// one whose low values are, and false where y is not positive and finite.
func LogValue(y float64, s Sense) (float64, bool) {
	if !(y > 0) || math.IsInf(y, 1) {
		return math.NaN(), false
	}
	if s == LowerIsBetter {
		return -math.Log(y), true
	}
	return math.Log(y), true
}

// RateScale is what differences of a metric that can be 0, such as loss, are
// multiplied by for the bets of Evidence, where the margin is UnitMargin: they
// serve any unit then (statistics.md section 3). margin is in the metric's unit
// and positive.
func RateScale(margin float64) float64 { return UnitMargin / margin }

// Change returns the change of the metric itself that the gain d stands for:
// a gain of ln 1.25 is +25 % of goodput and −20 % of a round trip.
func Change(d float64, s Sense) units.Percent {
	if s == LowerIsBetter {
		d = -d
	}
	return units.Percent(100 * math.Expm1(d))
}

// LogMargin returns the margin m = ln(1 + p) as a log ratio; p is above −100 %.
func LogMargin(p units.Percent) float64 { return math.Log1p(float64(p) / 100) }

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
