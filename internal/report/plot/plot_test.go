package plot

import (
	"math"
	"strings"
	"testing"

	"linerate/internal/must"
)

// TestScaleVectors checks ends, whole steps and their texts.
func TestScaleVectors(t *testing.T) {
	for _, c := range []struct {
		name   string
		axis   Axis
		values []float64
		want   string // texts of the ticks
		unit   string // name of the axis
	}{
		{"rates from 0", Axis{Name: "goodput", Unit: BitRate, Zero: true}, []float64{941.5e6}, "0 200 400 600 800", "goodput, Mbit/s"},
		{"seconds", Axis{Name: "time", Unit: Seconds, Zero: true}, []float64{0, 10}, "0 2 4 6 8 10", "time, s"},
		{"milliseconds", Axis{Name: "trip", Unit: Seconds, Zero: true}, []float64{0.0213}, "0 5 10 15 20", "trip, ms"},
		{"below 0", Axis{Name: "change", Unit: Percent}, []float64{-12, 31}, "−10 0 10 20 30", "change, %"},
		{"sizes", Axis{Name: "message", Unit: Bytes, Log: true}, []float64{1, 1 << 20}, "1 B 32 B 1 KiB 32 KiB 1 MiB", "message"},
		{"one value", Axis{Unit: Plain}, []float64{5}, "4.8 4.9 5.0 5.1 5.2", ""},
		{"nothing", Axis{Unit: Plain}, nil, "0 0.2 0.4 0.6 0.8 1.0", ""},
	} {
		ticks, name := newScale(c.axis, c.values, 0, 400).ticks(75)
		var got []string
		for _, x := range ticks {
			got = append(got, x.text)
			must.True(t, x.at >= -0.5 && x.at <= 400.5, "%s: %s stands at %v", c.name, x.text, x.at)
		}
		joined := strings.Join(got, " ")
		must.True(t, joined == c.want && name == c.unit, "%s: %q, %q; want %q, %q", c.name, joined, name, c.want, c.unit)
	}
}

// TestScaleHasNoPlaceForWhatItCannotShow: a logarithmic scale has no place for 0.
func TestScaleHasNoPlaceForWhatItCannotShow(t *testing.T) {
	s := newScale(Axis{Log: true}, []float64{0, -3, 1, 100, math.Inf(1), math.NaN()}, 0, 100)
	must.True(t, math.IsNaN(s.at(0)) && math.IsNaN(s.at(-3)), "0 has a place on a logarithmic scale")
	a, b := s.at(1), s.at(100)
	must.True(t, a >= 0 && b <= 100 && a < b, "1 and 100 stand at %v and %v", a, b)
}

// TestBoxOf: the quartiles are those of R's default, and four values have no box.
func TestBoxOf(t *testing.T) {
	must.True(t, BoxOf([]float64{1, 2, 3, 4}) == nil, "a box of four values")
	got := BoxOf([]float64{7, 1, 3, 5, 2, math.NaN()})
	want := (Box{1, 2, 3, 5, 7})
	must.True(t, got != nil && *got == want, "%v, want %v", got, want)
}

// TestHeat: numbers without space for their unit share that of the axis, and what is not measured
// differs from a small number without colours.
func TestHeat(t *testing.T) {
	of := func(unit Unit, v ...float64) Heat { return Heat{Unit: unit, Name: "goodput", Cells: [][]float64{v}} }
	for _, c := range []struct {
		heat Heat
		room float64
		want string // texts, and the axis
	}{
		{of(BitRate, 38.15e6, 9.6e6, math.NaN()), 90, "38.15 Mbit/s|9.6 Mbit/s|–|goodput"},
		{of(BitRate, 38.16e6, 9.6e6, math.NaN()), 40, "38.2|9.6|–|goodput, Mbit/s"},
		{of(BitRate, 1e9, 999.9e6), 40, "1000|1000|goodput, Mbit/s"},
		{of(Seconds, .000214, .0101), 32, "0.214|10.1|goodput, ms"},
		{of(BitRate, 38.15e6, math.NaN()), 3, "||goodput, Mbit/s"},
	} {
		low, high := c.heat.shades()
		texts, axis := c.heat.texts(low, high, c.room)
		must.Equal(t, strings.Join(append(texts[0], axis), "|"), c.want)
	}
}

// TestTextIsText: markup in a text stays text.
func TestTextIsText(t *testing.T) {
	f := Figure{Name: `x"><script>`, Title: "<b>", Sentence: "a & b", Panels: []Panel{Boxes{Parts: []Part{{Name: "</text><script>"}}}}}
	for _, svg := range []string{f.SVG(Wide), f.Inline(Narrow)} {
		must.True(t, !strings.Contains(svg, "<script") && !strings.Contains(svg, "<b>") && !strings.Contains(svg, "a & b"), "markup: %s", svg)
	}
}

// TestContrast: every text has a contrast of at least 4.5 against its background in all three
// dresses (WCAG 2.2, 1.4.3), and every line one of 3 (1.4.11).
func TestContrast(t *testing.T) {
	for i, dress := range strings.Split(style, "{--ground:")[1:] {
		colour := map[string]string{"ground": strings.SplitN(dress, ";", 2)[0]}
		body, _, _ := strings.Cut(dress, "}")
		for v := range strings.SplitSeq(body, ";") {
			if name, value, ok := strings.Cut(v, ":"); ok && strings.HasPrefix(name, "--") {
				colour[name[2:]] = value
			}
		}
		for name, least := range map[string]float64{"ink": 4.5, "faint": 4.5, "bad": 4.5, "good": 4.5, "s0": 3, "s1": 3, "s2": 3, "s3": 3, "s4": 3, "s5": 3} {
			got := contrast(t, colour[name], colour["ground"])
			must.True(t, !(got < least), "dress %d: %s %s on %s has a contrast of %.2f", i, name, colour[name], colour["ground"], got)
		}
		got := contrast(t, colour["faint"], colour["band"])
		must.True(t, !(got < 4.5), "dress %d: text in boxes has a contrast of %.2f", i, got)
	}
}

// contrast returns that of two colours (WCAG 2.2, definition of contrast ratio).
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	digits := strings.TrimPrefix(hex, "#")
	if len(digits) == 3 {
		digits = string([]byte{digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]})
	}
	must.Need(t, len(digits) == 6, "no colour: %q", hex)
	var sum float64
	for i, weight := range []float64{.2126, .7152, .0722} {
		v := float64(strings.Index("0123456789abcdef", digits[2*i:2*i+1])*16+strings.Index("0123456789abcdef", digits[2*i+1:2*i+2])) / 255
		if v <= .04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}
