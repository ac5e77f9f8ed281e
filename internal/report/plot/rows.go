package plot

import (
	"math"
	"strings"
)

// Rows is a chart with a row for each setting over one axis: the points of its runs with a box,
// or an interval with its estimate.
type Rows struct {
	X      Axis
	Rows   []Row
	Zero   *float64 // the value of no difference
	Margin *Span    // the range of differences that do not matter
}

// Row is one row. Nil or empty fields are not drawn.
type Row struct {
	Name   string
	Text   string // right of the chart: the numbers as text
	Points []float64
	Box    *Box
	Span   *Span // the interval
	Outer  *Span // the interval for all comparisons together
	Mid    *float64
	Bar    bool // from 0 to Mid
	Tone   Tone
}

// Box is the five-number summary of a box plot.
type Box struct{ Low, Q1, Median, Q3, High float64 }

// Span is a range from Low to High; either may be infinite.
type Span struct{ Low, High float64 }

// Tone says whether a row is good or bad.
type Tone string

// The tones.
const (
	Neutral Tone = ""
	Good    Tone = "good"
	Bad     Tone = "bad"
)

const rowHeight = 34.0

// stacked reports whether the names go above the rows, because there is no space beside them.
func (r Rows) stacked(width float64) bool {
	name, text := r.texts()
	return width < 500 || width-name-text < 260
}

func (r Rows) texts() (name, text float64) {
	for _, row := range r.Rows {
		name, text = max(name, TextWidth(row.Name, textSize)), max(text, TextWidth(row.Text, smallSize))
	}
	return name + 12, text + 12
}

func (r Rows) step(width float64) float64 {
	if r.stacked(width) {
		return rowHeight + 18
	}
	return rowHeight
}

func (r Rows) height(width float64) float64 {
	return float64(len(r.Rows))*r.step(width) + 40
}

func (r Rows) draw(c *canvas, area rect) {
	name, text := r.texts()
	stacked, step := r.stacked(area.width), r.step(area.width)
	inner := rect{area.x + name, area.y, area.width - name - text, float64(len(r.Rows)) * step}
	if stacked {
		inner.x, inner.width = area.x+6, area.width-18
	}
	x := newScale(r.X, r.values(), inner.x, inner.right())
	if m := r.Margin; m != nil {
		c.block(rect{x.within(m.Low), inner.y, x.within(m.High) - x.within(m.Low), inner.height}, "band", "no difference that matters")
	}
	ticks, _ := x.ticks(xRoom)
	for _, t := range ticks {
		c.line(t.at, inner.y, t.at, inner.bottom(), "grid")
	}
	if r.Zero != nil {
		c.line(x.within(*r.Zero), inner.y, x.within(*r.Zero), inner.bottom(), "axis")
	}
	for i, row := range r.Rows {
		y := inner.y + (float64(i)+.5)*step
		if stacked {
			y += 9
			both := strings.TrimSuffix(row.Name+": "+row.Text, ": ")
			label := shortened(both, area.width, smallSize)
			c.block(rect{area.x, y - rowHeight/2 - smallSize, TextWidth(label, smallSize), smallSize + 4}, "ground", "") // no grid line crosses it
			c.text(area.x, y-rowHeight/2+1, smallSize, tone(row.Tone), Start, label)
		} else {
			c.text(area.x, y+textSize*.35, textSize, "ink", Start, row.Name)
			c.text(area.right(), y+smallSize*.35, smallSize, tone(row.Tone), End, row.Text)
		}
		row.draw(c, x, y, r.X.Unit)
	}
	bottomAxis(c, x, inner)
}

func tone(t Tone) string {
	if t == Neutral {
		return "ink"
	}
	return string(t)
}

// values returns all numbers that the axis has to include.
func (r Rows) values() []float64 {
	var v []float64
	if r.Zero != nil {
		v = append(v, *r.Zero)
	}
	if r.Margin != nil {
		v = append(v, r.Margin.Low, r.Margin.High)
	}
	for _, row := range r.Rows {
		v = append(v, row.Points...)
		if row.Box != nil {
			v = append(v, row.Box.Low, row.Box.High)
		}
		for _, s := range []*Span{row.Span, row.Outer} {
			if s != nil {
				v = append(v, s.Low, s.High)
			}
		}
		if row.Mid != nil {
			v = append(v, *row.Mid)
		}
	}
	return v
}

func (row Row) draw(c *canvas, x scale, y float64, u Unit) {
	colour := map[Tone]int{Good: 2, Bad: 1}[row.Tone]
	if b := row.Box; b != nil {
		c.line(x.at(b.Low), y, x.at(b.High), y, "axis")
		c.block(rect{x.at(b.Q1), y - 8, max(x.at(b.Q3)-x.at(b.Q1), 1), 16}, "box", "")
		c.line(x.at(b.Median), y-8, x.at(b.Median), y+8, class("w", 0))
	}
	for n, v := range row.Points {
		// Points are staggered vertically in the order of the runs, so that equal values stay
		// visible.
		c.mark(Point{x.at(v), y + float64(n%3-1)*3.5}, 5, 2.6, row.Name+": "+Format(v, u))
	}
	if row.Bar && row.Mid != nil {
		c.shade(rect{x.at(0), y - 9, x.at(*row.Mid) - x.at(0), 18}, class("f", colour), row.Name+": "+row.Text, .35)
	}
	if s := row.Outer; s != nil {
		row.span(c, x, y, *s, "axis")
	}
	if s := row.Span; s != nil {
		row.span(c, x, y, *s, class("w", colour))
	}
	if row.Mid != nil {
		c.mark(Point{x.at(*row.Mid), y}, 0, 4.2, row.Name+": "+row.Text)
	}
}

// span draws an interval, with an arrow at an infinite end and a stroke at a finite one.
func (row Row) span(c *canvas, x scale, y float64, s Span, class string) {
	low, high := x.from, x.to
	if !math.IsInf(s.Low, 0) && !math.IsNaN(s.Low) {
		low = x.at(s.Low)
		c.line(low, y-5, low, y+5, class)
	} else {
		c.polyline([]Point{{low + 6, y - 5}, {low, y}, {low + 6, y + 5}}, class)
	}
	if !math.IsInf(s.High, 0) && !math.IsNaN(s.High) {
		high = x.at(s.High)
		c.line(high, y-5, high, y+5, class)
	} else {
		c.polyline([]Point{{high - 6, y - 5}, {high, y}, {high - 6, y + 5}}, class)
	}
	c.line(low, y, high, y, class)
}

// BoxOf returns the five-number summary of v, nil for fewer than five values, where a box would
// hide more than it shows. Quartiles are interpolated between the order statistics (Hyndman and
// Fan 1996, definition 7).
func BoxOf(v []float64) *Box {
	v = sorted(known(v))
	if len(v) < 5 {
		return nil
	}
	at := func(q float64) float64 {
		h := q * float64(len(v)-1)
		i := int(h)
		if i+1 == len(v) {
			return v[i]
		}
		return v[i] + (h-float64(i))*(v[i+1]-v[i])
	}
	return &Box{v[0], at(.25), at(.5), at(.75), v[len(v)-1]}
}
