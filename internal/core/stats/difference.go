package stats

import (
	"math"

	"linerate/internal/core/units"
)

// Sense says which way a metric is good.
type Sense int

// The senses.
const (
	HigherIsBetter Sense = iota // goodput
	LowerIsBetter               // round trip, CPU per Gbit
)

// Difference returns the block difference D of a metric that is never 0: the
// log ratio of candidate to baseline, its sign turned so that positive is good
// (statistics.md section 3). It returns false where a value is not positive
// and finite, which no ratio can use.
func Difference(candidate, baseline float64, s Sense) (float64, bool) {
	c, okC := LogValue(candidate, s)
	b, okB := LogValue(baseline, s)
	return c - b, okC && okB
}

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

// RateDifference returns D of a metric that can be 0 and whose low values are
// good, such as loss or a retransmit rate: baseline minus candidate, in the
// metric's own unit (statistics.md section 3).
func RateDifference(candidate, baseline float64) float64 { return baseline - candidate }

// ScaleRates returns rate differences on the scale that the bets of Evidence
// are made for, where the margin is UnitMargin, so that they serve metrics of any
// unit (statistics.md section 3). margin is in the metric's unit and positive.
func ScaleRates(d []float64, margin float64) []float64 {
	out := make([]float64, len(d))
	for i, v := range d {
		out[i] = v / UnscaleRate(1, margin)
	}
	return out
}

// UnscaleRate turns a number on the scale of ScaleRates, such as an interval's
// end, back into the metric's unit.
func UnscaleRate(v, margin float64) float64 { return v * margin / UnitMargin }

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
