package plot

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// canvas collects the shapes of a picture. Colours are classes, whose values depend on the
// medium.
type canvas struct {
	figure Figure
	width  float64
	inline bool // within a page
	shapes []Shape
}

// series is how many lines can differ in colour, stroke and mark.
const series = 6

// style gives each class its colours. The six of the series are those of Okabe and Ito, in dark
// mode the lighter of each pair; text has a contrast of at least 4.5 to the background (WCAG
// 2.2, 1.4.3).
const style = `
.p{--ground:#fff;--strong:#000;--ink:#1b1f24;--faint:#57606a;--grid:#e3e6ea;--band:#f1f3f6;--bad:#b23a00;--good:#00674c;--s0:#0072b2;--s1:#d55e00;--s2:#007a5a;--s3:#a3457d;--s4:#5b6670;--s5:#8a6d00;font-family:Arial,Helvetica,"Liberation Sans",sans-serif}
@media (prefers-color-scheme:dark){.p{--ground:#14171b;--strong:#fff;--ink:#e8eaed;--faint:#a3acb6;--grid:#2c323a;--band:#1f242b;--bad:#ff9a62;--good:#4fd1a5;--s0:#56b4e9;--s1:#f0813a;--s2:#2fc79a;--s3:#df8fc0;--s4:#aab4be;--s5:#e6c84a}}
@media print{.p{--ground:#fff;--strong:#000;--strong:#000;--ink:#000;--faint:#333;--grid:#ddd;--band:#eee;--bad:#b23a00;--good:#00674c;--s0:#0072b2;--s1:#d55e00;--s2:#007a5a;--s3:#a3457d;--s4:#5b6670;--s5:#8a6d00}}
.p .ground{fill:var(--ground)}.p text{fill:var(--ink)}.p .title{font-weight:bold}.p .faint{fill:var(--faint)}.p .bad{fill:var(--bad)}.p .good{fill:var(--good)}.p .pale{fill:var(--strong)}.p .full{fill:#000}
.p .grid{stroke:var(--grid);stroke-width:1;fill:none}.p .axis{stroke:var(--faint);stroke-width:1;fill:none}.p .band{fill:var(--band)}.p .stall{fill:var(--bad);opacity:.18}.p .rule{stroke:var(--ink);stroke-width:1;stroke-dasharray:2 3;fill:none}
.p .box{fill:var(--band);stroke:var(--faint)}.p .limit{fill:var(--band);stroke:var(--bad);stroke-width:2.5}.p .link{stroke:var(--faint);stroke-width:2;fill:none}
`

// dashes are the strokes of the series, which distinguish them without colour.
var dashes = [series]string{"", "7 3", "2 3", "9 3 2 3", "1 2", "12 4"}

// Style returns the style sheet of all pictures, for pages with pictures.
func Style() string {
	var b strings.Builder
	b.WriteString(style)
	for i := range series {
		fmt.Fprintf(&b, ".p .l%d{stroke:var(--s%d);fill:none;stroke-width:1.8;stroke-linejoin:round", i, i)
		if dashes[i] != "" {
			fmt.Fprintf(&b, ";stroke-dasharray:%s", dashes[i])
		}
		fmt.Fprintf(&b, "}.p .f%d{fill:var(--s%d)}.p .w%d{stroke:var(--s%d);stroke-width:2.5;fill:none}\n", i, i, i, i)
	}
	return b.String()
}

// document returns the whole picture; inside a page, without the style, which the page has
// once.
func (c *canvas) document(height float64) string {
	id := escape(c.figure.Name)
	if c.inline {
		id += "-" + number(c.width)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="p" viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-labelledby="%s-t %s-d">`+"\n",
		number(c.width), number(height), number(c.width), number(height), id, id)
	fmt.Fprintf(&b, "<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n", id, escape(c.figure.Title), id, escape(c.figure.Sentence))
	if !c.inline {
		fmt.Fprintf(&b, "<style>%s</style>\n", Style())
	}
	fmt.Fprintf(&b, "<rect class=\"ground\" width=\"%s\" height=\"%s\"/>\n", number(c.width), number(height))
	for _, shape := range c.shapes {
		shape.svg(&b)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// number formats a length to a tenth of a pixel.
func number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0 // a caller's mistake must not make the whole picture unreadable
	}
	return strconv.FormatFloat(math.Round(10*v)/10+0, 'f', -1, 64)
}

// text writes s with its baseline at y.
func (c *canvas) text(x, y, size float64, class string, anchor Anchor, s string) {
	if s != "" {
		c.shapes = append(c.shapes, Shape{Kind: Text, Class: class, Points: []Point{{x, y}}, Text: s, Size: size, Anchor: anchor})
	}
}

// paragraph writes text from y down, in lines of at most width, and returns its lower end.
func (c *canvas) paragraph(x, y, width, size float64, class, text string) float64 {
	for _, line := range wrapped(text, width, size) {
		c.text(x, y+size, size, class, Start, line)
		y += lead * size
	}
	return y
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	c.shapes = append(c.shapes, Shape{Kind: Segment, Class: class, Points: []Point{{x1, y1}, {x2, y2}}})
}

// block is a filled part of the picture; tip is shown when the pointer is over it.
func (c *canvas) block(r rect, class, tip string) {
	c.shade(r, class, tip, 0)
}

// shade is block with an opacity.
func (c *canvas) shade(r rect, class, tip string, opacity float64) {
	corner := Point{r.x + max(r.width, 0), r.y + max(r.height, 0)}
	c.shapes = append(c.shapes, Shape{Kind: Block, Class: class, Points: []Point{{r.x, r.y}, corner}, Tip: tip, Opacity: opacity})
}

// polyline joins the points, with a gap at each NaN.
func (c *canvas) polyline(points []Point, class string) {
	for _, p := range points {
		if !p.Gap() {
			c.shapes = append(c.shapes, Shape{Kind: Path, Class: class, Points: points})
			return
		}
	}
}

// mark draws the symbol of series i at p: a disc, square, triangle, diamond, cross or ring.
func (c *canvas) mark(p Point, i int, r float64, tip string) {
	if p.Gap() {
		return
	}
	shape := Shape{Class: fmt.Sprintf("f%d", i%series), Tip: tip}
	at := func(dx, dy float64) Point { return Point{p.X + dx, p.Y + dy} }
	switch i % series {
	case 0, 5:
		shape.Kind, shape.Points, shape.Radius = Disc, []Point{p}, r
	case 1:
		shape.Kind, shape.Points = Block, []Point{at(-r*.9, -r*.9), at(.9*r, .9*r)}
	case 2:
		shape.Kind, shape.Points = Area, []Point{at(0, -1.2*r), at(1.1*r, .8*r), at(-1.1*r, .8*r)}
	case 3:
		shape.Kind, shape.Points = Area, []Point{at(0, -1.3*r), at(1.3*r, 0), at(0, 1.3*r), at(-1.3*r, 0)}
	case 4:
		shape.Kind, shape.Points = Path, []Point{at(-r, -r), at(r, r), {math.NaN(), 0}, at(-r, r), at(r, -r)}
	}
	if i%series >= 4 {
		shape.Class = fmt.Sprintf("w%d", i%series)
	}
	c.shapes = append(c.shapes, shape)
}
