package report

import (
	"math"
	"strconv"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// metricName returns what people call m.
func metricName(m model.Metric) string {
	switch m {
	case model.Goodput:
		return "goodput"
	case model.Sent:
		return "sent rate"
	case model.RTT:
		return "round trip"
	case model.RTTMin:
		return "least round trip"
	case model.PeerWindow:
		return "window of the peer"
	case model.Cwnd:
		return "congestion window"
	case model.CPU:
		return "CPU"
	case model.LossRatio:
		return "loss"
	case model.LatencyP50:
		return "median latency"
	case model.LatencyP99:
		return "99th percentile of latency"
	case model.RequestRate:
		return "request rate"
	case model.ConnectRate:
		return "connection rate"
	default:
		return string(m)
	}
}

// lowerIsBetter reports whether less of m is good.
func lowerIsBetter(m model.Metric) bool {
	switch m {
	case model.LossRatio, model.Jitter, model.LatencyP50, model.LatencyP99:
		return true
	case model.Retransmits, model.RTT, model.RTTMin, model.RwndLimited, model.SndbufLimited, model.CPU:
		return true
	default:
		return false
	}
}

// isCount reports whether m can be 0, so that its changes are differences and
// not ratios (statistics, section 3).
func isCount(m model.Metric) bool {
	return m == model.Retransmits || m == model.LossRatio || m == model.RwndLimited || m == model.SndbufLimited
}

// effect turns differences of blocks, where more is good, into changes of the
// metric itself.
type effect struct {
	lower bool // less of the metric is good
	count bool // differences instead of log ratios
}

// value returns difference d as the change of the metric, in percent unless it
// is a count. An infinite end stays infinite.
func (e effect) value(d float64) float64 {
	if e.lower {
		d = -d
	}
	if e.count || math.IsInf(d, 0) {
		return d
	}
	return 100 * math.Expm1(d)
}

// ends returns interval i as a range of changes.
func (e effect) ends(i model.Interval) (low, high float64) {
	low, high = e.value(float64(i.Low)), e.value(float64(i.High))
	if e.lower {
		low, high = high, low
	}
	return low, high
}

// rangeText writes interval i with the digits that its width supports.
func (e effect) rangeText(i model.Interval) string {
	low, high := float64(i.Low), float64(i.High)
	if e.lower {
		low, high = -high, -low
	}
	if !e.count {
		return units.FormatChangeInterval(low, high)
	}
	end := func(v float64) string { return units.Round(v, high-low) }
	switch {
	case math.IsInf(low, -1) && math.IsInf(high, 1):
		return "not bounded yet"
	case math.IsInf(low, -1):
		return "below " + end(high)
	case math.IsInf(high, 1):
		return "above " + end(low)
	}
	return end(low) + " to " + end(high)
}

// changeText writes difference d as a change with its direction in words, with
// the digits that the range from low to high supports: "4.5 % higher".
func (e effect) changeText(d, low, high float64) string {
	change := e.value(d)
	if math.IsNaN(change) || math.IsInf(change, 0) {
		return "unknown"
	}
	digits := units.Round(math.Abs(change), high-low)
	if math.IsInf(high-low, 0) || math.IsNaN(high-low) {
		digits = units.Round(math.Abs(change), math.Abs(change)) // two significant digits
	}
	unit := " %"
	if e.count {
		unit = ""
	}
	if v, err := strconv.ParseFloat(digits, 64); err == nil && v == 0 {
		return digits + unit
	}
	if change < 0 {
		return digits + unit + " lower"
	}
	return digits + unit + " higher"
}

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
