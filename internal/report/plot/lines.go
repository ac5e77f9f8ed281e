package plot

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Lines is a line chart over one axis: rates over time, a message-size curve, a distribution.
type Lines struct {
	X, Y  Axis
	Lines []Line
	Bands []Band // marked ranges of X
	Rules []Rule // marked levels of Y
	Notes []Note // points with a label
	Tall  float64
	// Below is a second chart over the same X: it shares the axis, the bands and the names of
	// the lines, one for one, with the first.
	Below *Lines
}

// Line is one line. A NaN value is a gap.
type Line struct {
	Name string
	X, Y []float64
	Step bool // constant from each X to the next
	Dots bool // mark each point
}

// Band is a range of X: a stall, a link that was down.
type Band struct {
	From, To float64
	Name     string
}

// Rule is a level of Y, such as a ceiling.
type Rule struct {
	At   float64
	Name string
}

// Note is a point with a label: a drop at a message size. If Y is NaN, it applies to all Y at
// that X.
type Note struct {
	X, Y float64
	Name string
}

// Default height, and the space for ticks.
const (
	tall    = 240.0
	xRoom   = 78.0
	yRoom   = 30.0
	legendY = 20.0

	nameRoom = 18.0 // for the name of Y, above
	axisRoom = 36.0 // for X, below
	partsGap = 14.0
)

func (l Lines) height(width float64) float64 {
	h := l.legendHeight(width) + axisRoom
	for i, part := range l.parts() {
		h += nameRoom + part.inside(width)
		if i > 0 {
			h += partsGap
		}
	}
	return h
}

// parts returns l and the chart below it.
func (l Lines) parts() []Lines {
	if l.Below == nil {
		return []Lines{l}
	}
	below := *l.Below
	below.X, below.Bands = l.X, l.Bands
	return []Lines{l, below}
}

// inside returns the height of l between its name and its axis.
func (l Lines) inside(width float64) float64 {
	h := l.Tall
	if h == 0 {
		h = tall
	}
	if width < 500 {
		h *= 0.85
	}
	return h - nameRoom - axisRoom
}

// legendHeight returns the height of the legend; a single line needs none.
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
	parts := l.parts()
	inner := make([]rect, len(parts))
	ys, top, room := make([]scale, len(parts)), area.y+l.legendHeight(area.width), 0.0
	var xs []float64
	for i, part := range parts { // the labels of Y are measured before X has its place
		height := part.inside(area.width)
		inner[i] = rect{y: top + nameRoom, height: height}
		top += nameRoom + height + partsGap
		var values []float64
		for _, line := range part.Lines {
			xs, values = append(xs, line.X...), append(values, line.Y...)
		}
		for _, r := range part.Rules {
			values = append(values, r.At)
		}
		for _, n := range part.Notes {
			xs = append(xs, n.X)
		}
		ys[i] = newScale(part.Y, values, inner[i].bottom(), inner[i].y)
		ticks, _ := ys[i].ticks(yRoom)
		for _, t := range ticks {
			room = max(room, TextWidth(t.text, smallSize))
		}
	}
	for i, part := range parts {
		inner[i].x, inner[i].width = area.x+room+8, area.width-room-16
		x := newScale(l.X, xs, inner[i].x, inner[i].right())
		part.drawPart(c, x, ys[i], inner[i], area.x)
		if i == len(parts)-1 {
			bottomAxis(c, x, inner[i])
		} else {
			c.line(inner[i].x, inner[i].bottom(), inner[i].right(), inner[i].bottom(), "axis")
		}
		part.drawContents(c, x, ys[i], inner[i])
	}
}

// drawPart draws the background of one chart; its name starts at left.
func (l Lines) drawPart(c *canvas, x, y scale, inner rect, left float64) {
	for _, b := range l.Bands {
		from, to := x.within(b.From), x.within(b.To)
		c.block(rect{from, inner.y, max(to-from, 2), inner.height}, "stall", b.Name)
	}
	ticks, name := y.ticks(yRoom)
	c.text(left, inner.y-nameRoom+smallSize, smallSize, "faint", Start, name)
	for _, t := range ticks {
		c.line(inner.x, t.at, inner.right(), t.at, "grid")
		c.text(inner.x-6, t.at+smallSize*.35, smallSize, "faint", End, t.text)
	}
}

// drawContents draws the rules, the lines and the notes.
func (l Lines) drawContents(c *canvas, x, y scale, inner rect) {
	drawn := make([][]Point, len(l.Lines))
	for i, line := range l.Lines {
		drawn[i] = places(line, x, y)
	}
	for _, r := range l.Rules {
		at := y.at(r.At)
		c.line(inner.x, at, inner.right(), at, "rule")
		name := shortened(r.Name, inner.width, smallSize)
		box, anchor := ruleName(inner, at, TextWidth(name, smallSize), drawn)
		from := box.x
		if anchor == End {
			from = box.right()
		}
		c.text(from, box.y+smallSize, smallSize, "ink", anchor, name)
	}
	for i, line := range l.Lines {
		drawLine(c, line, drawn[i], i, l)
	}
	l.notes(c, x, y, inner)
}

// ruleName returns the place for the name of a rule at that height: above or below it, at its
// right or left end, the first of these that no line crosses.
func ruleName(inner rect, at, width float64, drawn [][]Point) (rect, Anchor) {
	above := rect{inner.right() - 2 - width, at - 4 - smallSize, width, smallSize}
	left := rect{inner.x + 2, above.y, width, smallSize}
	below := func(r rect) rect { r.y = at + 4; return r }
	for _, box := range []rect{above, left, below(above), below(left)} {
		if !slices.ContainsFunc(drawn, func(points []Point) bool { return crosses(points, box) }) {
			if box.x == left.x {
				return box, Start
			}
			return box, End
		}
	}
	return above, End
}

// crosses reports whether the line through points, with ascending X, crosses box.
func crosses(points []Point, box rect) bool {
	for i := 1; i < len(points); i++ {
		p, q := points[i-1], points[i]
		if p.Gap() || q.Gap() {
			continue
		}
		from, to := max(p.X, box.x), min(q.X, box.right())
		if from > to {
			continue
		}
		at := func(x float64) float64 {
			if q.X == p.X {
				return q.Y
			}
			return p.Y + (q.Y-p.Y)*(x-p.X)/(q.X-p.X)
		}
		if min(at(from), at(to)) <= box.bottom()+2 && max(at(from), at(to)) >= box.y-2 {
			return true
		}
	}
	return false
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
	c.text(inner.right(), inner.bottom()+30, smallSize, "faint", End, shortened(name, inner.right()-edge, smallSize))
}

// places returns the points of line in the picture.
func places(line Line, x, y scale) []Point {
	var points []Point
	for n := range line.X {
		p := Point{x.at(line.X[n]), y.at(line.Y[n])}
		if line.Step && n > 0 && len(points) > 0 {
			points = append(points, Point{p.X, points[len(points)-1].Y})
		}
		points = append(points, p)
	}
	return points
}

func drawLine(c *canvas, line Line, points []Point, i int, l Lines) {
	c.polyline(points, class("l", i))
	if !line.Dots {
		return
	}
	for n := range line.X {
		at := n
		if line.Step {
			at = 2 * n // the corner between two points
		}
		tip := fmt.Sprintf("%s: %s, %s", line.Name, Format(line.X[n], l.X.Unit), Format(line.Y[n], l.Y.Unit))
		c.mark(points[at], i, 2.6, tip)
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

// notes writes the labels of points, left of the point if there is no space on the right, and
// below the previous label if they would touch.
func (l Lines) notes(c *canvas, x, y scale, inner rect) {
	var taken []rect
	for _, n := range l.Notes {
		p := Point{x.at(n.X), y.at(n.Y)}
		if math.IsNaN(p.X) {
			continue
		}
		if math.IsNaN(p.Y) {
			c.line(p.X, inner.y, p.X, inner.bottom(), "rule")
			p.Y = inner.y + 6
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
