package raster

import (
	"math"

	"linerate/internal/report/plot"
)

// discSides is the number of corners that approximate a circle: invisible at the few pixels of
// the marks here.
const discSides = 24

// outlineOf returns the polygon that a shape fills, nil for lines.
func outlineOf(s plot.Shape) []plot.Point {
	switch s.Kind {
	case plot.Block:
		a, b := s.Points[0], s.Points[1]
		return []plot.Point{a, {X: b.X, Y: a.Y}, b, {X: a.X, Y: b.Y}}
	case plot.Area:
		return s.Points
	case plot.Disc:
		return disc(s.Points[0], s.Radius)
	case plot.Text, plot.Segment, plot.Path:
	}
	return nil
}

func disc(at plot.Point, radius float64) []plot.Point {
	var out []plot.Point
	for i := range discSides {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / discSides)
		out = append(out, plot.Point{X: at.X + radius*cos, Y: at.Y + radius*sin})
	}
	return out
}

// linesOf returns the lines along which a shape is stroked: those of a path between its gaps,
// or its outline.
func linesOf(s plot.Shape) [][]plot.Point {
	if outline := outlineOf(s); len(outline) > 0 {
		return [][]plot.Point{append(outline, outline[0])}
	}
	var out [][]plot.Point
	var line []plot.Point
	for _, p := range s.Points {
		if p.Gap() {
			out, line = append(out, line), nil
			continue
		}
		line = append(line, p)
	}
	return append(out, line)
}

// dashed cuts a line into its dashes; dashes are alternating lengths of strokes and gaps.
func dashed(line []plot.Point, dashes []float64) [][]plot.Point {
	if len(dashes) == 0 || len(line) == 0 {
		return [][]plot.Point{line}
	}
	var out [][]plot.Point
	n, left := 0, dashes[0]
	open := []plot.Point{line[0]}
	for i := 1; i < len(line); i++ {
		from, to := line[i-1], line[i]
		for length := math.Hypot(to.X-from.X, to.Y-from.Y); length > left; length = math.Hypot(to.X-from.X, to.Y-from.Y) {
			from = plot.Point{X: from.X + (to.X-from.X)*left/length, Y: from.Y + (to.Y-from.Y)*left/length}
			if n%2 == 0 {
				out = append(out, append(open, from))
			}
			open = []plot.Point{from}
			n++
			left = dashes[n%len(dashes)]
		}
		left -= math.Hypot(to.X-from.X, to.Y-from.Y)
		open = append(open, to)
	}
	if n%2 == 0 {
		out = append(out, open)
	}
	return out
}

// stroke returns the polygons that a line covers, half its width to each side, with round
// joints. All have the same orientation, so that they add up where they overlap.
func stroke(line []plot.Point, half float64) [][]plot.Point {
	var out [][]plot.Point
	for i := 1; i < len(line); i++ {
		a, b := line[i-1], line[i]
		length := math.Hypot(b.X-a.X, b.Y-a.Y)
		if length == 0 {
			continue
		}
		dx, dy := (b.X-a.X)/length*half, (b.Y-a.Y)/length*half
		out = append(out, []plot.Point{{X: a.X + dy, Y: a.Y - dx}, {X: b.X + dy, Y: b.Y - dx}, {X: b.X - dy, Y: b.Y + dx}, {X: a.X - dy, Y: a.Y + dx}})
		if i+1 < len(line) && half > .5 {
			out = append(out, disc(b, half))
		}
	}
	return out
}
