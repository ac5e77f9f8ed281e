package units

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// FormatDuration formats d for people, with at most three significant digits below a minute:
// "850 ns", "9.8 µs", "0.21 ms", "59.9 s", and in whole seconds or minutes above: "2 min 10 s",
// "1 h 5 min". ParseDuration reads it back. Times from 0.1 ms on are shown in ms, so that round
// trips of one table share a unit.
func FormatDuration(d time.Duration) string {
	if d < 0 {
		return "-" + FormatDuration(-max(d, -math.MaxInt64))
	}
	switch {
	case d == 0:
		return "0 s"
	case d < time.Microsecond:
		return strconv.FormatInt(int64(d), 10) + " ns"
	case d < 99950*time.Nanosecond: // rounds to less than 100 µs
		return digits(float64(d)/1e3, 3) + " µs"
	case d < 999500*time.Microsecond: // rounds to less than 1000 ms
		return digits(float64(d)/1e6, 3) + " ms"
	case d < 59950*time.Millisecond: // rounds to less than 60 s
		return digits(d.Seconds(), 3) + " s"
	case d < time.Hour-500*time.Millisecond:
		whole := int64(math.Round(d.Seconds()))
		return pair(whole/60, " min", whole%60, " s")
	}
	whole := int64(math.Round(d.Minutes()))
	return pair(whole/60, " h", whole%60, " min")
}

// pair joins two counts with their units and omits a second one of zero.
func pair(a int64, aUnit string, b int64, bUnit string) string {
	s := strconv.FormatInt(a, 10) + aUnit
	if b == 0 {
		return s
	}
	return s + " " + strconv.FormatInt(b, 10) + bUnit
}

// Beyond reports whether a ratio, as its logarithm, is above 2 or below 1/2, where factors are
// easier to read than percent.
func Beyond(logRatio float64) bool { return math.Abs(logRatio) > math.Ln2+1e-9 }

// FormatFactor formats a ratio, given as its logarithm, as a factor: "30.7 times", "0.33
// times". uncertainty is the width of its range, as a ratio; 0 is unknown and gives three
// significant digits.
func FormatFactor(logRatio, uncertainty float64) string {
	return factor(math.Exp(logRatio), uncertainty) + " times"
}

// factor returns ratio v with two to four significant digits.
func factor(v, uncertainty float64) string {
	if !isFinite(uncertainty) || uncertainty <= 0 {
		return digits(v, 3)
	}
	n := min(decimalsFor(uncertainty), max(0, 3-int(math.Floor(math.Log10(v)))-1))
	return strconv.FormatFloat(v, 'f', max(n, decimalsFor(v)), 64)
}

// FormatChange formats a log ratio as a relative change: in percent, signed and to two
// significant digits or the whole percent, up to twofold, and as a factor beyond: ln(1.045) is
// "+4.5 %", ln(0.5) is "-50 %", ln(30.7) is "30.7 times". NaN is "unknown".
func FormatChange(logRatio float64) string {
	change := 100 * math.Expm1(logRatio)
	switch {
	case math.IsNaN(change):
		return "unknown"
	case math.IsInf(change, 1):
		return "+∞ %"
	case math.IsInf(logRatio, -1):
		return "-100 %"
	case Beyond(logRatio):
		return FormatFactor(logRatio, 0)
	}
	return signed(change, decimalsFor(change)) + " %"
}

// FormatChangeInterval formats a range of log ratios around estimate, both ends to the digits
// that its width supports: in percent, "+3.1 % to +5.9 %", or as factors if the estimate is
// Beyond or an end is above twofold, "1.8 to 2.4 times". An unknown estimate is NaN. An
// infinite end is unbounded: "above +3.1 %", "below 2.4 times", "not bounded yet".
func FormatChangeInterval(estimate, low, high float64) string {
	noLow := math.IsInf(low, -1) || math.IsNaN(low)
	noHigh := math.IsInf(high, 1) || math.IsNaN(high)
	switch {
	case noLow && noHigh:
		return "not bounded yet"
	case noLow:
		return "below " + FormatChange(high)
	case noHigh:
		return "above " + FormatChange(low)
	case Beyond(estimate) || high > math.Ln2+1e-9:
		width := math.Exp(high) - math.Exp(low)
		return factor(math.Exp(low), width) + " to " + FormatFactor(high, width)
	}
	l, h := 100*math.Expm1(low), 100*math.Expm1(high)
	n := decimalsFor(h - l)
	return signed(l, n) + " % to " + signed(h, n) + " %"
}

// Round formats v to the decimals that its uncertainty (in the same unit) supports: the first
// two significant digits of the uncertainty. It keeps trailing zeros, as they are known:
// Round(5, 0.12) is "5.00". Without a finite positive uncertainty v has four significant
// digits.
func Round(v, uncertainty float64) string {
	if !isFinite(uncertainty) || uncertainty <= 0 {
		return digits(v, 4)
	}
	return strconv.FormatFloat(v, 'f', decimalsFor(uncertainty), 64)
}

// Range formats the range between two formatted quantities, with a common unit only once:
// "928.4 to 941.5 Mbit/s".
func Range(low, high string) string {
	number, unit, _ := strings.Cut(low, " ")
	if _, other, _ := strings.Cut(high, " "); other == unit {
		low = number
	}
	return low + " to " + high
}

// maxDecimals limits the decimals of numbers close to zero.
const maxDecimals = 6

// decimalsFor returns how many decimals show two significant digits of v.
func decimalsFor(v float64) int {
	if v == 0 || !isFinite(v) {
		return 0
	}
	return min(max(0, 1-int(math.Floor(math.Log10(math.Abs(v))))), maxDecimals)
}

// signed formats v with its sign, or as plain zero if it rounds to that.
func signed(v float64, decimals int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		return "0"
	}
	if v > 0 {
		return "+" + s
	}
	return s
}

// FormatShare formats a share of 0 to 1 in percent, with one decimal below 10 % and around 100
// %, where it matters.
func FormatShare(v float64) string {
	decimals := 0
	if p := 100 * v; p < 10 || p > 90 && p < 110 {
		decimals = 1
	}
	scale := math.Pow10(decimals)
	return Percent(math.Round(100*v*scale) / scale).String()
}
