package term

import (
	"fmt"
	"math"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/report"
)

// Plots narrower than leastPlot are useless; wider ones than mostPlot show nothing more.
const (
	leastPlot = 16
	mostPlot  = 60
)

// statistics prints the verdicts of t with their statistics: a line with the numbers and the
// interval drawn, and their meaning below.
func (p *printer) statistics(t report.Table) {
	p.paragraph(bold, t.Title, 2)
	p.paragraph(dim, basis(t), 2)
	header := []cell{left("setting"), right("blocks"), right("change"), right("interval")}
	var rows [][]cell
	for _, r := range t.Rows {
		rows = append(rows, []cell{left(r.Setting), right(fmt.Sprint(r.Blocks)), right(r.ChangeText), right(r.RangeText)})
	}
	l := p.fit(rows, header)
	plot := newPlot(t, min(p.width-l.used(), mostPlot))
	if plot.width > 0 && !l.stacked {
		l.widths, l.names = append(l.widths, plot.width), append(header, left(plot.axis()))
		for i, r := range t.Rows {
			rows[i] = append(rows[i], left(plot.draw(r)))
		}
	}
	p.heading(l)
	for i, r := range t.Rows {
		p.row(rows[i], l)
		p.paragraph(color(r), verdict(t, r), 4)
		for _, w := range r.Warnings {
			p.paragraph(yellow, "warning: "+w, 4)
		}
	}
	p.gap()
}

// basis describes the numbers of t.
func basis(t report.Table) string {
	parts := []string{"intervals of " + confidence(t)}
	if t.Margin > 0 && t.Unit == "%" {
		parts = append(parts, "margin "+t.Margin.String())
	}
	if t.LowerIs == "better" {
		parts = append(parts, "lower is better")
	}
	if t.Basis != "" {
		parts = append(parts, t.Basis)
	}
	return strings.Join(parts, "; ")
}

// confidence returns the achieved confidence of t's intervals, which may differ from the
// requested one (statistics, section 4.2), or the requested one if they do not have it.
func confidence(t report.Table) string {
	percent := func(v float64) units.Percent { return units.Percent(math.Round(1e3*v) / 10) }
	least, most := math.Inf(1), 0.0
	for _, r := range t.Rows {
		if r.Confidence > 0 && r.Confidence < 1 { // an unbounded interval has 1
			least, most = min(least, r.Confidence), max(most, r.Confidence)
		}
	}
	switch {
	case most == 0:
		return percent(t.Confidence).String()
	case percent(least) == percent(most):
		return percent(most).String()
	}
	return fmt.Sprintf("%s to %s", percent(least), percent(most))
}

// verdict returns the meaning of a row.
func verdict(t report.Table, r report.Row) string {
	text := r.Words
	if r.Note != "" {
		text += "; " + r.Note
	}
	switch {
	case r.FamilyText == "" || t.Together < 2:
	case t.Together == 2:
		text += "; both together: " + r.FamilyText
	default:
		text += fmt.Sprintf("; all %d together: %s", t.Together, r.FamilyText)
	}
	return text
}

// color returns green for a gain and red for a loss, and for a twin with a verdict, which it
// must not have.
func color(r report.Row) style {
	if r.IsTwin && (r.Outcome == model.Better || r.Outcome == model.Worse) {
		return red
	}
	switch r.Outcome {
	case model.Better:
		if r.Harms {
			return yellow
		}
		return green
	case model.Worse:
		return red
	case model.Equivalent, model.Undecided:
		return normal
	}
	return normal
}

// plot draws intervals on one scale that includes zero.
type plot struct {
	low, high float64 // at the first and the last column
	margin    float64 // 0 for none
	width     int     // columns; 0 draws nothing
	unit      string
}

// The characters of a plot.
const (
	markZero     = '│'
	markMargin   = '┊'
	markTogether = '─'
	markOne      = '━'
	markEstimate = '●'
	markOpenLow  = '◂'
	markOpenHigh = '▸'
)

func newPlot(t report.Table, width int) plot {
	p := plot{width: width, margin: float64(t.Margin), unit: t.Unit}
	if t.Unit != "%" {
		p.margin = 0
	}
	p.low, p.high = -p.margin, p.margin
	for _, r := range t.Rows {
		for _, b := range []*model.Bound{&r.Low, &r.High, &r.Change, r.FamilyLow, r.FamilyHigh} {
			if b == nil || math.IsInf(float64(*b), 0) || math.IsNaN(float64(*b)) {
				continue
			}
			p.low, p.high = math.Min(p.low, float64(*b)), math.Max(p.high, float64(*b))
		}
	}
	room := (p.high - p.low) / 20
	p.low, p.high = p.low-room, p.high+room
	if width < leastPlot || p.low >= p.high {
		p.width = 0
	}
	return p
}

// column returns the column of v; values beyond the scale go to its ends.
func (p plot) column(v float64) int {
	x := (v - p.low) / (p.high - p.low) * float64(p.width-1)
	return int(math.Round(math.Min(math.Max(x, 0), float64(p.width-1))))
}

// axis returns the labels at the ends of the scale and at zero.
func (p plot) axis() string {
	if p.width == 0 {
		return ""
	}
	cells := []rune(strings.Repeat(" ", p.width))
	put := func(at int, text string) {
		runes := []rune(text)
		at = min(max(at, 0), p.width-len(runes))
		for i := max(0, at-1); i < min(p.width, at+len(runes)+1); i++ {
			if cells[i] != ' ' {
				return // would touch another label
			}
		}
		copy(cells[at:], runes)
	}
	put(p.column(0), "0")
	put(p.width, p.label(p.high))
	put(0, p.label(p.low))
	return string(cells)
}

func (p plot) label(v float64) string {
	text := units.Round(v, math.Abs(p.high-p.low))
	if p.unit == "%" && v > 100 { // twofold and more
		return units.Round(1+v/100, (p.high-p.low)/100) + " x"
	}
	if v > 0 {
		text = "+" + text
	}
	if p.unit != "" {
		text += " " + p.unit
	}
	return text
}

// draw draws the interval of r: thin for all comparisons together, thick for this one, a dot
// for the estimate.
func (p plot) draw(r report.Row) string {
	if p.width == 0 {
		return ""
	}
	cells := []rune(strings.Repeat(" ", p.width))
	if p.margin > 0 {
		cells[p.column(-p.margin)], cells[p.column(p.margin)] = markMargin, markMargin
	}
	cells[p.column(0)] = markZero
	if r.FamilyLow != nil && r.FamilyHigh != nil {
		p.span(cells, float64(*r.FamilyLow), float64(*r.FamilyHigh), markTogether)
	}
	low, high := float64(r.Low), float64(r.High)
	if !(math.IsInf(low, -1) && math.IsInf(high, 1)) {
		p.span(cells, low, high, markOne)
	}
	if v := float64(r.Change); !math.IsNaN(v) && !math.IsInf(v, 0) {
		cells[p.column(v)] = markEstimate
	}
	return strings.TrimRight(string(cells), " ")
}

// span draws a line from low to high, with an arrow at an infinite end.
func (p plot) span(cells []rune, low, high float64, mark rune) {
	for i := p.column(low); i <= p.column(high); i++ {
		cells[i] = mark
	}
	if math.IsInf(low, -1) {
		cells[0] = markOpenLow
	}
	if math.IsInf(high, 1) {
		cells[p.width-1] = markOpenHigh
	}
}
