package plot

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/units"
)

// Unit is the unit of the numbers on an axis. They are in base units.
type Unit int

// The units.
const (
	Plain   Unit = iota // a number without a unit
	BitRate             // bit/s
	Bytes               // message size, with binary prefixes
	Seconds             // latency, or time within a run
	Percent             // of 100
	Share               // 0…1, shown as percent
)

// Axis is one of the two axes of a chart.
type Axis struct {
	Name string // "goodput"; its unit is added
	Unit Unit
	Log  bool
	Zero bool      // starts at 0
	Also []float64 // further values to include: the panels of one picture share a scale
}

// scale maps numbers to positions. A logarithmic one has no position for 0 and below.
type scale struct {
	axis      Axis
	low, high float64 // of the numbers
	from, to  float64 // of the positions
}

// newScale fits the values, with some margin, and with whole steps at both ends if the scale is
// linear.
func newScale(a Axis, values []float64, from, to float64) scale {
	s := scale{axis: a, low: math.Inf(1), high: math.Inf(-1), from: from, to: to}
	for _, v := range known(slices.Concat(values, a.Also)) {
		if a.Log && v <= 0 {
			continue
		}
		s.low, s.high = min(s.low, v), max(s.high, v)
	}
	if s.low > s.high { // nothing to show
		s.low, s.high = 1, 10
		if !a.Log {
			s.low, s.high = 0, 1
		}
	}
	if a.Log {
		if s.high < s.low*2 {
			s.low, s.high = s.low/1.5, s.high*1.5
		}
		room := math.Pow(s.high/s.low, 0.02)
		s.low, s.high = s.low/room, s.high*room
		return s
	}
	if a.Zero {
		s.low, s.high = min(s.low, 0), max(s.high, 0)
	}
	if s.high-s.low < 1e-9*max(math.Abs(s.high), math.Abs(s.low), 1e-300) || s.high == s.low {
		room := max(math.Abs(s.high)*0.05, 1e-9)
		s.low, s.high = s.low-room, s.high+room
		if a.Zero && s.low < 0 && s.high-room >= 0 {
			s.low = 0
		}
	}
	room := (s.high - s.low) * 0.04
	if !a.Zero || s.low < 0 {
		s.low -= room
	}
	if !a.Zero || s.high > 0 {
		s.high += room
	}
	return s
}

// at returns the position of v; NaN if it has none.
func (s scale) at(v float64) float64 {
	if s.axis.Log {
		if v <= 0 {
			return math.NaN()
		}
		return s.from + (s.to-s.from)*math.Log(v/s.low)/math.Log(s.high/s.low)
	}
	return s.from + (s.to-s.from)*(v-s.low)/(s.high-s.low)
}

// within returns the position of v, or that of the nearer end.
func (s scale) within(v float64) float64 {
	return s.at(min(max(v, s.low), s.high))
}

// tick is a number on an axis with its text.
type tick struct {
	at   float64 // position
	text string
}

// ticks returns about as many ticks as fit if each takes room pixels, and the name of the axis
// with the unit of their texts.
func (s scale) ticks(room float64) (ticks []tick, name string) {
	most := max(2, int(math.Abs(s.to-s.from)/room))
	if s.axis.Log {
		return s.logTicks(most)
	}
	step := niceStep((s.high-s.low)/float64(most), s.axis.Unit)
	factor, unit := s.prefix()
	first := math.Ceil(s.low/step - 1e-9)
	for i := first; i*step <= s.high+1e-9*step; i++ {
		v := i * step
		ticks = append(ticks, tick{s.at(v), decimal(v/factor, step/factor)})
	}
	return ticks, joined(s.axis.Name, unit)
}

func joined(name, unit string) string {
	if unit == "" || name == "" {
		return name + unit
	}
	return name + ", " + unit
}

// prefix returns the divisor for the numbers of a linear scale, and the resulting unit.
func (s scale) prefix() (factor float64, unit string) {
	most := max(math.Abs(s.low), math.Abs(s.high))
	pick := func(steps []float64, names []string) (float64, string) {
		for i := len(steps) - 1; i > 0; i-- {
			if most >= steps[i]*1.0001 {
				return steps[i], names[i]
			}
		}
		return steps[0], names[0]
	}
	switch s.axis.Unit {
	case BitRate:
		return pick([]float64{1, 1e3, 1e6, 1e9, 1e12}, []string{"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"})
	case Bytes:
		return pick([]float64{1, 1 << 10, 1 << 20, 1 << 30}, []string{"B", "KiB", "MiB", "GiB"})
	case Seconds:
		return pick([]float64{1e-9, 1e-6, 1e-3, 1}, []string{"ns", "µs", "ms", "s"})
	case Percent:
		return 1, "%"
	case Share:
		return 0.01, "%"
	case Plain:
	}
	return 1, ""
}

// niceStep returns the least of 1, 2 and 5 times a power of ten that is at least about step;
// for bytes, a power of two.
func niceStep(step float64, u Unit) float64 {
	if u == Bytes {
		return math.Exp2(math.Ceil(math.Log2(step)))
	}
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= step*.75 {
			return m * power
		}
	}
	return 10 * power
}

// decimal formats v with as many decimals as steps of that size need.
func decimal(v, step float64) string {
	places := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	text := strconv.FormatFloat(v, 'f', places, 64)
	if strings.Trim(text, "-0.") == "" {
		return "0"
	}
	return strings.Replace(text, "-", "−", 1)
}

// logTicks returns powers of the base, with 2 and 5 times a power of ten in between if there is
// space; each tick has its unit.
func (s scale) logTicks(most int) ([]tick, string) {
	base, between := 10.0, []float64{1, 2, 5}
	if s.axis.Unit == Bytes {
		base, between = 2, []float64{1}
	}
	first := math.Floor(math.Log(s.low)/math.Log(base)) - 1
	last := math.Ceil(math.Log(s.high) / math.Log(base))
	pick := func(every int, multiples []float64) []float64 {
		var out []float64
		for e := first; e <= last; e++ {
			if math.Mod(e, float64(every)) != 0 {
				continue
			}
			for _, m := range multiples {
				if v := m * math.Pow(base, e); v >= s.low*(1-1e-9) && v <= s.high*(1+1e-9) {
					out = append(out, v)
				}
			}
		}
		return out
	}
	values := pick(1, between)
	for every := 1; len(values) > most && every < 64; every++ {
		values = pick(every, []float64{1})
	}
	if len(values) < 2 {
		values = []float64{s.low, s.high}
	}
	ticks := lists.Each(values, func(v float64) tick { return tick{s.at(v), Format(v, s.axis.Unit)} })
	return ticks, s.axis.Name
}

// Format formats one number with its unit.
func Format(v float64, u Unit) string {
	switch u {
	case BitRate:
		return units.BitRate(v).String()
	case Bytes:
		return units.Bytes(math.Round(v)).Binary()
	case Seconds:
		return units.FormatDuration(time.Duration(math.Round(v * 1e9)))
	case Percent:
		return units.Percent(rounded(v, 4)).String()
	case Share:
		return units.Percent(rounded(100*v, 4)).String()
	case Plain:
	}
	return fmt.Sprint(rounded(v, 4))
}

// rounded rounds to significant digits.
func rounded(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// span returns the least and the greatest of v, which must not be empty.
func span(v []float64) (low, high float64) { return slices.Min(v), slices.Max(v) }
