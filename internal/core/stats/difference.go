package stats

import (
	"cmp"
	"math"
	"slices"

	"linerate/internal/core/units"
)

// Sense says whether high or low values of a metric are good.
type Sense int

// The senses.
const (
	HigherIsBetter Sense = iota // goodput
	LowerIsBetter               // round trip, CPU per Gbit
)

// LogValue returns ln y if high values are good and −ln y if low values are, and false if y is
// not positive and finite.
func LogValue(y float64, s Sense) (float64, bool) {
	if !(y > 0) || math.IsInf(y, 1) {
		return math.NaN(), false
	}
	if s == LowerIsBetter {
		return -math.Log(y), true
	}
	return math.Log(y), true
}

// RateScale is the factor for differences of a metric that can be 0, such as loss, that makes
// their margin UnitMargin, for which the bets of Evidence are designed in any unit
// (statistics.md section 3). margin is in the metric's unit and positive.
func RateScale(margin float64) float64 { return UnitMargin / margin }

// Change converts gain d to the change of the metric itself: a gain of ln 1.25 is +25 % of
// goodput and −20 % of a round trip.
func Change(d float64, s Sense) units.Percent {
	if s == LowerIsBetter {
		d = -d
	}
	return units.Percent(100 * math.Expm1(d))
}

// LogMargin returns the margin m = ln(1 + p) as a log ratio; p is above −100 %.
func LogMargin(p units.Percent) float64 { return math.Log1p(float64(p) / 100) }

// Holm returns the p values adjusted for their number, in the order given. Rejecting each
// hypothesis with an adjusted p below alpha keeps the chance of any false rejection at most
// alpha (Holm, Scand. J. Stat. 6, 1979; statistics.md section 6.1).
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

// MinBlocks returns the least number of blocks with which an exact test of the given number of
// comparisons can decide at alpha: 1 + ⌈log2(m/alpha)⌉ (statistics.md section 6.3).
func MinBlocks(comparisons int, alpha float64) int {
	return 1 + int(math.Ceil(math.Log2(float64(max(1, comparisons))/alpha)))
}
