package plot

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"linerate/internal/core/plain"
)

// Drawing is the layout of a figure, for renderers other than SVG.
type Drawing struct {
	Width, Height float64 // pixels
	Shapes        []Shape // back to front
}

// Drawing lays f out, width pixels wide.
func (f Figure) Drawing(width float64) Drawing {
	c := &canvas{figure: f, width: width}
	return Drawing{Width: width, Height: f.lay(c), Shapes: c.shapes}
}

// Kind is the kind of a shape.
type Kind int

// The kinds.
const (
	Text    Kind = iota // at its one point
	Segment             // a line between two points
	Path                // a line through all points, with a gap at each NaN
	Block               // a rectangle between two corners
	Area                // a filled polygon
	Disc                // around its one point
)

// Anchor is the part of a text at its point.
type Anchor string

// The anchors.
const (
	Start  Anchor = "start"
	Middle Anchor = "middle"
	End    Anchor = "end"
)

// Point is a position in a picture, in pixels from its upper left corner.
type Point struct{ X, Y float64 }

// Gap reports whether p marks the end of a line instead of a position.
func (p Point) Gap() bool { return math.IsNaN(p.X) || math.IsNaN(p.Y) }

// Shape is one part of a drawing. Looks has the colours of its class.
type Shape struct {
	Kind    Kind
	Class   string
	Points  []Point
	Radius  float64 // of a disc
	Text    string
	Size    float64 // of a text
	Anchor  Anchor
	Tip     string  // description of the shape
	Opacity float64 // 0…1, times that of its class; 0 is 1
}

// svg writes the shape as an element.
func (s Shape) svg(b io.Writer) {
	if s.Opacity > 0 {
		fmt.Fprintf(b, "<g opacity=\"%.2f\">", s.Opacity)
		defer fmt.Fprint(b, "</g>\n")
	}
	element, attributes := "", ""
	switch s.Kind {
	case Text:
		element, attributes = "text", fmt.Sprintf(`x="%s" y="%s" font-size="%s"`, number(s.Points[0].X), number(s.Points[0].Y), number(s.Size))
	case Segment:
		element, attributes = "line", fmt.Sprintf(`x1="%s" y1="%s" x2="%s" y2="%s"`,
			number(s.Points[0].X), number(s.Points[0].Y), number(s.Points[1].X), number(s.Points[1].Y))
	case Path:
		element, attributes = "path", fmt.Sprintf(`d="%s"`, path(s.Points))
	case Area:
		element, attributes = "path", fmt.Sprintf(`d="%sZ"`, path(s.Points))
	case Block:
		from, to := s.Points[0], s.Points[1]
		element, attributes = "rect", fmt.Sprintf(`x="%s" y="%s" width="%s" height="%s"`, number(from.X), number(from.Y), number(to.X-from.X), number(to.Y-from.Y))
	case Disc:
		element, attributes = "circle", fmt.Sprintf(`cx="%s" cy="%s" r="%s"`, number(s.Points[0].X), number(s.Points[0].Y), number(s.Radius))
	}
	attributes += fmt.Sprintf(` class="%s"`, s.Class)
	if s.Anchor == Middle || s.Anchor == End {
		attributes += fmt.Sprintf(` text-anchor="%s"`, s.Anchor)
	}
	switch {
	case s.Kind == Text:
		fmt.Fprintf(b, "<%s %s>%s</%s>\n", element, attributes, escape(s.Text), element)
	case s.Tip != "":
		fmt.Fprintf(b, "<%s %s><title>%s</title></%s>\n", element, attributes, escape(s.Tip), element)
	default:
		fmt.Fprintf(b, "<%s %s/>\n", element, attributes)
	}
}

// path returns the points as the data of a path.
func path(points []Point) string {
	var d strings.Builder
	verb := "M"
	for _, p := range points {
		if p.Gap() {
			verb = "M"
			continue
		}
		fmt.Fprintf(&d, "%s%s %s", verb, number(p.X), number(p.Y))
		verb = "L"
	}
	return d.String()
}

// escape converts foreign text to XML without control characters, which XML forbids (XML 1.0,
// section 2.2).
func escape(text string) string { return html.EscapeString(plain.Line(text)) }
