package plot

import (
	"fmt"
	"math"
	"strconv"
)

// Lines is a drawing of lines over one axis: rates over time, a message-size curve, a
// distribution.
type Lines struct {
	X, Y  Axis
	Lines []Line
	Bands []Band // stretches of X that are marked
	Rules []Rule // levels of Y
	Notes []Note // places with a word
	Tall  float64
}

// Line is one of them. A value that is not a number is a gap.
type Line struct {
	Name string
	X, Y []float64
	Step bool // constant from each X to the next
	Dots bool // each point is marked
}

// Band is a stretch of X: a stall, a link that was down.
type Band struct {
	From, To float64
	Name     string
}

// Rule is a level of Y, such as a ceiling.
type Rule struct {
	At   float64
	Name string
}

// Note is a place with a word beside it: a drop at a message size.
type Note struct {
	X, Y float64
	Name string
}

// plain heights, and the room that ticks take.
const (
	tall    = 240.0
	xRoom   = 78.0
	yRoom   = 30.0
	legendY = 20.0
)

func (l Lines) height(width float64) float64 {
	h := l.Tall
	if h == 0 {
		h = tall
	}
	if width < 500 {
		h *= 0.85
	}
	return h + l.legendHeight(width)
}

// legendHeight is that of the rows of names; a single line needs none.
func (l Lines) legendHeight(width float64) float64 {
	if len(l.Lines) < 2 {
		return 0
	}
	rows, x := 1.0, 0.0
	for _, line := range l.Lines {
		w := legendWidth(line.Name, width)
		if x > 0 && x+w > width {
			rows, x = rows+1, 0
		}
		x += w
	}
	return rows * legendY
}

func legendWidth(name string, width float64) float64 {
	return 40 + min(TextWidth(name, smallSize), width-40)
}

func (l Lines) draw(c *canvas, area rect) {
	l.legend(c, area)
	legend := l.legendHeight(area.width)
	area.y, area.height = area.y+legend, area.height-legend
	var xs, ys []float64
	for _, line := range l.Lines {
		xs, ys = append(xs, line.X...), append(ys, line.Y...)
	}
	for _, r := range l.Rules {
		ys = append(ys, r.At)
	}
	// The texts of Y are measured before there is a place for X.
	inner := rect{area.x, area.y + 18, area.width, area.height - 18 - 36}
	y := newScale(l.Y, ys, inner.bottom(), inner.y)
	ticks, name := y.ticks(yRoom)
	room := 0.0
	for _, t := range ticks {
		room = max(room, TextWidth(t.text, smallSize))
	}
	inner.x, inner.width = area.x+room+8, area.width-room-16
	x := newScale(l.X, xs, inner.x, inner.right())
	for _, b := range l.Bands {
		from, to := x.within(b.From), x.within(b.To)
		c.block(rect{from, inner.y, max(to-from, 2), inner.height}, "stall", b.Name)
	}
	c.text(area.x, area.y+smallSize, smallSize, "faint", Start, name)
	for _, t := range ticks {
		c.line(inner.x, t.at, inner.right(), t.at, "grid")
		c.text(inner.x-6, t.at+smallSize*.35, smallSize, "faint", End, t.text)
	}
	bottomAxis(c, x, inner)
	for _, r := range l.Rules {
		at := y.at(r.At)
		c.line(inner.x, at, inner.right(), at, "rule")
		c.text(inner.right()-2, at-4, smallSize, "ink", End, shortened(r.Name, inner.width, smallSize))
	}
	for i, line := range l.Lines {
		drawLine(c, line, i, x, y, l)
	}
	l.notes(c, x, y, inner)
}

// bottomAxis draws the axis below inner with its ticks and its name.
func bottomAxis(c *canvas, x scale, inner rect) {
	c.line(inner.x, inner.bottom(), inner.right(), inner.bottom(), "axis")
	ticks, name := x.ticks(xRoom)
	taken := math.Inf(-1)
	for _, t := range ticks {
		c.line(t.at, inner.bottom(), t.at, inner.bottom()+4, "axis")
		half := TextWidth(t.text, smallSize) / 2
		at := min(max(t.at, inner.x+half-20), inner.right()-half+8)
		if at-half < taken {
			continue
		}
		c.text(at, inner.bottom()+16, smallSize, "faint", Middle, t.text)
		taken = at + half + 6
	}
	c.text(inner.right(), inner.bottom()+30, smallSize, "faint", End, name)
}

func drawLine(c *canvas, line Line, i int, x, y scale, l Lines) {
	var points []Point
	for n := range line.X {
		p := Point{x.at(line.X[n]), y.at(line.Y[n])}
		if line.Step && n > 0 && len(points) > 0 {
			points = append(points, Point{p.X, points[len(points)-1].Y})
		}
		points = append(points, p)
	}
	c.polyline(points, class("l", i))
	if !line.Dots {
		return
	}
	for n := range line.X {
		tip := fmt.Sprintf("%s: %s, %s", line.Name, Format(line.X[n], l.X.Unit), Format(line.Y[n], l.Y.Unit))
		c.mark(Point{x.at(line.X[n]), y.at(line.Y[n])}, i, 2.6, tip)
	}
}

func class(kind string, i int) string { return kind + strconv.Itoa(i%series) }

func (l Lines) legend(c *canvas, area rect) {
	if len(l.Lines) < 2 {
		return
	}
	x, y := area.x, area.y+10
	for i, line := range l.Lines {
		w := legendWidth(line.Name, area.width)
		if x > area.x && x+w > area.right() {
			x, y = area.x, y+legendY
		}
		c.line(x, y, x+22, y, class("l", i))
		if line.Dots {
			c.mark(Point{x + 11, y}, i, 3, "")
		}
		c.text(x+28, y+4, smallSize, "ink", Start, shortened(line.Name, area.width-40, smallSize))
		x += w
	}
}

// notes writes the words of places, left of the place where there is no room right of
// it, and below the word before where they would touch.
func (l Lines) notes(c *canvas, x, y scale, inner rect) {
	var taken []rect
	for _, n := range l.Notes {
		p := Point{x.at(n.X), y.at(n.Y)}
		if math.IsNaN(p.X) || math.IsNaN(p.Y) {
			continue
		}
		w := TextWidth(n.Name, smallSize)
		box := rect{p.X + 6, p.Y + 4, w, smallSize + 2}
		if box.right() > inner.right() {
			box.x = max(inner.x, p.X-6-w)
		}
		for range len(taken) {
			for _, t := range taken {
				if box.x < t.right() && t.x < box.right() && box.y < t.bottom() && t.y < box.bottom() {
					box.y = t.bottom()
				}
			}
		}
		box.y = min(box.y, inner.bottom()-box.height)
		taken = append(taken, box)
		c.line(p.X, p.Y-5, p.X, p.Y+5, "rule")
		c.text(box.x, box.y+smallSize, smallSize, "ink", Start, n.Name)
	}
}
