package plot

import (
	"math"
	"slices"

	"linerate/internal/core/units"
)

// Groups is a bar chart: a group for each level of one factor, and in each group a bar for each
// level of another. A bar ends at the median, and a line runs from the lowest run to the
// highest.
type Groups struct {
	Y      Axis
	Name   string   // of the groups' factor
	Groups []string // names, from left to right
	Series []string
	Bars   [][]Bar // by group, then by series
}

// Bar is one bar; NaN if nothing was measured.
type Bar struct{ Low, Median, High float64 }

// MostSeries is the most bars of a group that can each have their own colour and mark.
const MostSeries = series

func (g Groups) legend() Lines {
	var l Lines
	for _, s := range g.Series {
		l.Lines = append(l.Lines, Line{Name: s, Dots: true})
	}
	return l
}

func (g Groups) height(width float64) float64 {
	return g.legend().legendHeight(width) + nameRoom + tall
}

func (g Groups) draw(c *canvas, area rect) {
	top := g.legend().legendHeight(area.width) + nameRoom
	inner := rect{y: area.y + top, height: area.height - top - axisRoom}
	values := []float64{0}
	for _, b := range slices.Concat(g.Bars...) {
		values = append(values, b.Low, 1.08*b.High) // with space for the number above it
	}
	y, room := newScale(g.Y, values, inner.bottom(), inner.y), 0.0
	ticks, _ := y.ticks(yRoom)
	for _, t := range ticks {
		room = max(room, TextWidth(t.text, smallSize))
	}
	inner.x, inner.width = area.x+room+8, area.width-room-16
	g.legend().legend(c, area)
	Lines{}.drawPart(c, scale{}, y, inner, area.x)
	each := inner.width / float64(max(1, len(g.Groups)))
	width := min(each*.84/float64(max(1, len(g.Series))), 60)
	for i, bars := range g.Bars {
		middle := inner.x + (float64(i)+.5)*each
		for j, b := range bars {
			at := middle + (float64(j)-float64(len(bars))/2)*width
			g.bar(c, rect{at, inner.y, width - 2, 0}, y, b, j, g.Groups[i]+", "+g.Series[j])
		}
		c.text(middle, inner.bottom()+16, smallSize, "faint", Middle, shortened(g.Groups[i], each-4, smallSize))
	}
	c.line(inner.x, inner.bottom(), inner.right(), inner.bottom(), "axis")
	c.text(inner.right(), inner.bottom()+30, smallSize, "faint", End, shortened(g.Name, inner.width, smallSize))
}

// bar draws one bar in the columns of r, with the mark of its series at the median.
func (g Groups) bar(c *canvas, r rect, y scale, b Bar, series int, name string) {
	if math.IsNaN(b.Median) {
		return
	}
	top, middle := y.at(b.Median), r.x+r.width/2
	tip := name + ": " + Format(b.Median, g.Y.Unit) + " (" + units.Range(Format(b.Low, g.Y.Unit), Format(b.High, g.Y.Unit)) + ")"
	c.shade(rect{r.x, top, r.width, y.at(0) - top}, class("f", series), tip, .35)
	for _, end := range []float64{b.Low, b.High} {
		c.line(middle-4, y.at(end), middle+4, y.at(end), "axis")
	}
	c.line(middle, y.at(b.Low), middle, y.at(b.High), "axis")
	c.mark(Point{middle, top}, series, 3.2, tip)
	factor, _ := y.prefix()
	shown := b.Median / factor
	if text := decimal(shown, math.Pow(10, math.Floor(math.Log10(max(shown, 1)))-2)); TextWidth(text, smallSize) < r.width+8 { // three digits
		c.text(middle, y.at(b.High)-5, smallSize, "ink", Middle, text)
	}
}
