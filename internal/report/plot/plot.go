// Package plot draws pictures as SVG, for reports, mail and pages without scripts.
//
// A picture is self-explanatory: it has its title, a sentence made from the data that says what
// it shows, and below it the two hosts, the date, the kernels and the conditions. It works in
// light and dark mode and on paper: colours come from the palette of Okabe and Ito ("Color
// Universal Design", 2008), which people with every kind of colour vision can distinguish, and
// no two lines differ in colour alone.
//
// The text of a picture is the same on every machine for the same data, so that it can be
// compared with a file.
package plot

import (
	"math"
	"strings"
	"unicode"

	"linerate/internal/regex"
)

// Figure is one picture.
type Figure struct {
	Name     string   // of its file, without suffix, and of its elements in a page: "rate"
	Title    string   // "Rate and round trip"
	Sentence string   // what it shows, from the data
	About    []string // hosts, date, kernels, conditions: a line each
	Panels   []Panel  // one above the other
}

// Panel is one chart of a figure: Lines, Rows, Heat or Boxes.
type Panel interface {
	// height returns the height of the chart at that width, in pixels.
	height(width float64) float64
	draw(c *canvas, area rect)
}

// Widths of a picture in pixels: on a page, on a phone, and as a file.
const (
	Wide   = 880
	Narrow = 360
	File   = 1200
)

// Sizes of text in pixels, and spacing.
const (
	titleSize = 17
	textSize  = 13
	smallSize = 11.5
	edge      = 14
	lead      = 1.35 // line height, in text sizes
	between   = 14   // between two panels
)

// SVG returns f as an SVG document, width pixels wide. Its sizes are in CSS pixels; a page may
// scale it.
func (f Figure) SVG(width float64) string { return f.render(&canvas{figure: f, width: width}) }

// Inline returns f as an element for a page that has Style.
func (f Figure) Inline(width float64) string {
	return f.render(&canvas{figure: f, width: width, inline: true})
}

func (f Figure) render(c *canvas) string { return c.document(f.lay(c)) }

// lay draws all parts of f below each other, and returns the total height.
func (f Figure) lay(c *canvas) float64 {
	inner := c.width - 2*edge
	y := float64(edge)
	y = c.paragraph(edge, y, inner, titleSize, "title", f.Title)
	y = c.paragraph(edge, y+2, inner, textSize, "ink", f.Sentence)
	for _, p := range f.Panels {
		y += between
		h := p.height(inner)
		p.draw(c, rect{edge, y, inner, h})
		y += h
	}
	y += between
	for _, line := range f.About {
		y = c.paragraph(edge, y, inner, smallSize, "faint", line)
	}
	return y + edge
}

// rect is an area of the picture, from its upper left corner.
type rect struct{ x, y, width, height float64 }

func (r rect) right() float64  { return r.x + r.width }
func (r rect) bottom() float64 { return r.y + r.height }

// known returns the finite numbers of v.
func known(v []float64) []float64 {
	var out []float64
	for _, x := range v {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			out = append(out, x)
		}
	}
	return out
}

// wrapped breaks text at spaces into lines of at most width pixels. A wider word gets its own
// line.
func wrapped(text string, width, size float64) []string {
	var lines []string
	line := ""
	for _, word := range wholeNumbers(strings.Fields(text)) {
		longer := strings.TrimSpace(line + " " + word)
		if line != "" && TextWidth(longer, size) > width {
			lines, longer = append(lines, line), word
		}
		line = longer
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// unit matches a unit after a number.
var unit = regex.New(`^(%|[kMGT]?(bit/s|B|iB)|[nµm]?s|min)\W*$`)

// wholeNumbers joins each number and its unit into one word.
func wholeNumbers(words []string) []string {
	var out []string
	for _, w := range words {
		if n := len(out); n > 0 && unit.MatchString(w) && unicode.IsDigit(rune(out[n-1][len(out[n-1])-1])) {
			out[n-1] += " " + w
			continue
		}
		out = append(out, w)
	}
	return out
}

// shortened returns text, cut with an ellipsis if it is wider than width.
func shortened(text string, width, size float64) string {
	if TextWidth(text, size) <= width {
		return text
	}
	runes := []rune(text)
	for len(runes) > 1 && TextWidth(string(runes)+"…", size) > width {
		runes = runes[:len(runes)-1]
	}
	return strings.TrimRight(string(runes), " ") + "…"
}

// advance is the width of the printable ASCII characters, in thousandths of the size, from
// space on: those of Helvetica, which the fonts before it in the list below are designed to
// match (Adobe Font Metrics, 1990).
var advance = [...]int{
	278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
	556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
	1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
	667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
	333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
	556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
}

// TextWidth returns the approximate width of text, in pixels. It adds a tenth, since other
// fonts than the measured one are up to that much wider.
func TextWidth(text string, size float64) float64 {
	sum := 0
	for _, r := range text {
		switch i := int(r) - ' '; {
		case i >= 0 && i < len(advance):
			sum += advance[i]
		default:
			sum += 700
		}
	}
	return 1.1 * float64(sum) / 1000 * size
}
