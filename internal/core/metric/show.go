package metric

import (
	"math"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Describe returns the description of m. For a metric without verdicts, such as a count of an
// older session, it has only the name and the sense.
func Describe(m model.Metric) Info {
	if i, ok := Of(m); ok {
		return i
	}
	i := Info{ID: m, Name: string(m), Short: string(m)}
	switch m {
	case model.Retransmits, model.RwndLimited, model.SndbufLimited:
		i.LowIs, i.CanBe0 = true, true
	case model.CPU:
		i.Name, i.LowIs = "CPU", true
	case model.IdleP50, model.IdleP99:
		i.LowIs = true
	case model.PeerWindow:
		i.Name = "window of the peer"
	case model.Cwnd:
		i.Name = "congestion window"
	default: // its name is clear
	}
	return i
}

// Shown converts a change of the metric to the displayed number: percent for a log ratio,
// milliseconds for seconds, percentage points for a share. An infinite change stays infinite.
func (i Info) Shown(change float64) float64 {
	switch {
	case math.IsInf(change, 0):
		return change
	case !i.CanBe0:
		return 100 * math.Expm1(change)
	case i.Unit == "%":
		return 100 * change
	case i.Unit == "s":
		return 1e3 * change
	}
	return change
}

// ShownUnit returns the unit of Shown: "%", "ms", "points", or "" for a count.
func (i Info) ShownUnit() string {
	switch {
	case !i.CanBe0:
		return "%"
	case i.Unit == "%":
		return "points"
	case i.Unit == "s":
		return "ms"
	}
	return ""
}

// ChangeText formats gain d, positive good, as a change of the metric with its direction in
// words, to the digits that the interval of gains from low to high supports: "4.5 % higher",
// "30.7 times", "0.12 points lower".
func (i Info) ChangeText(d, low, high float64) string {
	change := i.Change(d)
	if math.IsNaN(change) || math.IsInf(change, 0) {
		return "unknown"
	}
	if !i.CanBe0 && units.Beyond(change) {
		return units.FormatFactor(change, math.Abs(math.Exp(i.Change(high))-math.Exp(i.Change(low))))
	}
	shown := i.Shown(change)
	width := math.Abs(i.Shown(i.Change(high)) - i.Shown(i.Change(low)))
	if math.IsInf(width, 0) || math.IsNaN(width) {
		width = math.Abs(shown) // two significant digits
	}
	if i.CanBe0 && width < finest {
		width = finest
	}
	digits, unit := units.Round(math.Abs(shown), width), i.suffix()
	if v, err := strconv.ParseFloat(digits, 64); err == nil && v == 0 {
		if i.CanBe0 {
			digits = "0"
		}
		return digits + unit
	}
	if shown < 0 {
		return digits + unit + " lower"
	}
	return digits + unit + " higher"
}

// RangeText formats an interval of gains around d as a range of changes, with the digits that
// its width supports.
func (i Info) RangeText(d, low, high float64) string {
	if i.LowIs {
		d, low, high = -d, -high, -low
	}
	if !i.CanBe0 {
		return units.FormatChangeInterval(d, low, high)
	}
	low, high = i.Shown(low), i.Shown(high)
	end := func(v float64) string {
		text := units.Round(v, max(high-low, finest))
		if strings.Trim(text, "-0.") == "" {
			return "0"
		}
		return text
	}
	switch {
	case math.IsInf(low, -1) && math.IsInf(high, 1):
		return "not bounded yet"
	case math.IsInf(low, -1):
		return "below " + end(high) + i.suffix()
	case math.IsInf(high, 1):
		return "above " + end(low) + i.suffix()
	}
	if end(low) == end(high) {
		return end(low) + i.suffix()
	}
	return end(low) + " to " + end(high) + i.suffix()
}

// finest is the finest displayed width for changes of a metric that can be 0: a
// hundred-thousandth of all packets, a microsecond.
const finest = 0.01

func (i Info) suffix() string {
	if u := i.ShownUnit(); u != "" {
		return " " + u
	}
	return ""
}

// MarginText formats the margin of a guard: "50 %", "0.5 points", "5 ms".
func (i Info) MarginText(margin float64) string {
	if i.CanBe0 {
		margin = i.Shown(margin)
	}
	return strconv.FormatFloat(margin, 'g', 6, 64) + i.suffix()
}

// HarmText formats the change that a guard forbids: "50 % higher".
func (i Info) HarmText(margin float64) string {
	if i.LowIs {
		return i.MarginText(margin) + " higher"
	}
	return i.MarginText(margin) + " lower"
}

// Amount formats a value of a metric with its unit.
func Amount(m model.Metric, v float64) string {
	switch unit := Base(m); unit {
	case "bit/s":
		return units.BitRate(v).String()
	case "s":
		return units.FormatDuration(time.Duration(v * float64(time.Second)))
	case "s/Gbit":
		return units.FormatDuration(time.Duration(v*float64(time.Second))) + "/Gbit"
	case "1":
		return units.Percent(100 * v).String()
	case "B":
		return units.Bytes(v).String()
	case "1/s":
		return units.Round(v, 0) + " " + Describe(m).Short + "/s"
	default:
		return strings.TrimSuffix(units.Round(v, 0)+" "+unit, " ")
	}
}
