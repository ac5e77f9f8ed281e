package term

import (
	"fmt"

	"linerate/internal/core/sweep"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/report"
)

// sweep prints the curves of message sizes, and how they were measured.
func (p *printer) sweep(d report.SweepDocument) {
	for _, c := range d.Directions {
		p.curve(d, c)
	}
	for _, text := range d.How {
		p.paragraph(dim, text, 2)
	}
	p.gap()
}

// curve prints one direction: what matters, the table, what is odd.
func (p *printer) curve(d report.SweepDocument, c report.SweepDirection) {
	passes := fmt.Sprintf("%d passes", c.Curve.Passes)
	if c.Curve.Passes == 1 {
		passes = "1 pass"
	}
	p.paragraph(bold, fmt.Sprintf("messages %s, %d sizes, %s", c.Label, len(c.Curve.Sizes), passes), 2)
	if s := c.Smallest; s != nil {
		what := "latency one way"
		if d.Mode == sizes.Stream {
			what = "time per message"
		}
		p.paragraph(plain, fmt.Sprintf("%s of %s: %s (middle half %s to %s)", what, report.SizeText(s.Size),
			units.FormatDuration(s.Median), units.FormatDuration(s.Low), units.FormatDuration(s.High)), 2)
	}
	if s := c.Largest; s != nil {
		text := fmt.Sprintf("greatest goodput: %v with messages of %s", s.Goodput, report.SizeText(s.Size))
		if half := report.SweepHalf(c); half != "" {
			text += ", " + half
		}
		p.paragraph(plain, text, 2)
	}
	p.gap()
	var rows [][]cell
	for _, r := range c.Rows {
		rows = append(rows, sweepRow(r))
	}
	p.grid(rows, []cell{right("message"), right("median"), right("quartiles"), right("goodput"), left("")})
	p.gap()
	p.findings(c.Findings)
	for _, text := range c.Curve.Warnings {
		p.paragraph(yellow, text, 2)
	}
	p.gap()
}

// sweepRow is one line of the table.
func sweepRow(r report.SweepRow) []cell {
	mark := left(r.Mark)
	mark.style = yellow
	if r.Stalled > 0 {
		mark.style = red
	}
	if r.Trials == 0 {
		return []cell{right(r.Label), right("-"), right("-"), right("-"), mark}
	}
	return []cell{
		right(r.Label), right(units.FormatDuration(r.Median)),
		right(units.FormatDuration(r.Low) + " to " + units.FormatDuration(r.High)), right(r.Goodput.String()), mark,
	}
}

// findings prints what is odd, each with what the kernels said meanwhile.
func (p *printer) findings(all []report.SweepFinding) {
	for _, f := range all {
		style := yellow
		switch f.State {
		case sweep.IsConfirmed:
			style = red
		case sweep.NotConfirmed:
			style = dim
		case sweep.Candidate, sweep.Open:
		}
		p.paragraph(style, f.Text, 2)
		for _, line := range f.Log {
			p.paragraph(dim, "kernel of "+line, 4)
		}
	}
	if len(all) == 0 {
		return
	}
	p.gap()
}
