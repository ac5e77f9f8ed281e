package report

import (
	"math"
	"strconv"

	"linerate/internal/core/units"
)

// FormatShare returns a share of 0 to 1 in percent, with one decimal from 99 %
// to 100 %, where it matters, and from 0 to 10 %.
func FormatShare(v float64) string {
	decimals := 0
	if p := 100 * v; p < 10 || p > 90 && p < 110 {
		decimals = 1
	}
	return units.Percent(roundTo(100*v, decimals)).String()
}

func roundTo(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// count returns n with its noun in the right number.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
