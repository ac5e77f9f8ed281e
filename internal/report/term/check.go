package term

import (
	"io"
	"slices"
	"strings"

	"linerate/internal/core/health"
	"linerate/internal/core/model"
	"linerate/internal/report"
)

// check writes the results of a check: a line for each aspect, the limit of each direction, and
// the path as a row of boxes.
func (p *printer) check(d report.Document, why bool) {
	c := d.Check
	p.checkLines(c.Lines, why)
	p.gap()
	p.boxes(c.Path)
	p.notes(c.Path, why)
	p.gap()
	for i, l := range c.Limits {
		p.paragraph(bold, "limit: "+l.Text, 2)
		if l.Helps != "" && (i+1 == len(c.Limits) || c.Limits[i+1].Helps != l.Helps) { // once for both directions
			p.paragraph(dim, "what helps: "+l.Helps, 4)
		}
		if why {
			p.evidence(l.Evidence, 4)
		}
	}
	p.gap()
	if c.Longer != nil {
		p.paragraph(bold, c.Longer.Asked+": "+c.Longer.Text, 2)
		p.checkLines(c.Longer.Lines, why)
		p.gap()
	}
	for _, m := range c.Expect {
		word, s := "met", green
		if !m.Met {
			word, s = "NOT MET", red
		}
		p.paragraph(s, word+": "+m.Clause+": "+m.Text, 2)
	}
	p.gap()
	for _, text := range d.Warnings {
		p.paragraph(yellow, "warning: "+text, 2)
	}
	p.gap()
	if d.Ending != "" && (len(c.Lines) == 0 || d.State != model.SessionDone) {
		p.paragraph(normal, d.Ending, 2)
	}
	for i, step := range d.Next { // the first one and cures; the last one shows this report again
		if i == 0 || slices.Contains(d.Cures, step) {
			p.command(step)
		}
	}
}

// RenderMachine writes the results of a check of a single machine.
func RenderMachine(w io.Writer, name string, lines []report.CheckLine, path []report.Box, o Options) error {
	p := newPrinter(o)
	p.paragraph(bold, name, 0)
	p.gap()
	p.checkLines(lines, o.Why)
	p.gap()
	p.boxes(path)
	p.notes(path, o.Why)
	return p.flush(w)
}

// notes writes the additional remarks on parts of the path.
func (p *printer) notes(path []report.Box, why bool) {
	for _, b := range path {
		if why && b.Note != "" {
			p.paragraph(dim, "- "+b.Name+": "+b.Note, 2)
		}
	}
}

// The widths of the columns before the text of a line: the word, the label, and the number.
const (
	wordWidth   = 5
	labelWidth  = 24
	numberWidth = 16
)

// checkLines writes a line for each aspect. On a narrow terminal the text goes below.
func (p *printer) checkLines(lines []report.CheckLine, why bool) {
	label, number := 0, 0
	for _, l := range lines {
		label, number = max(label, columns(clean(l.Label))), max(number, columns(clean(l.Number)))
	}
	label, number = min(label, labelWidth), min(number, numberWidth)
	for _, l := range lines {
		s := normal
		switch l.State {
		case health.OK:
			s = green
		case health.Poor:
			s = yellow
		case health.Bad:
			s = red
		case health.Unseen:
			s = dim
		}
		word, n := string(l.State), clean(l.Number)
		head := "  " + p.paint(s, word) + pad(word, wordWidth)
		indent := 2 + wordWidth + label + 2 + max(number, columns(n)) + 2
		if left := p.width - indent; left < p.width/3 || left < longest(l.Text) {
			p.line(head + cut(clean(l.Label), p.width-2-wordWidth-2-columns(n)) + "  " + n)
			p.paragraph(normal, l.Text, 2+wordWidth)
		} else {
			p.hanging(head+cut(clean(l.Label), label)+pad(clean(l.Label), label)+"  "+pad(n, number)+n+"  ", indent, l.Text)
		}
		if why {
			p.evidence(l.Evidence, 2+wordWidth)
		}
	}
}

// longest returns the length of the longest word of text, in columns.
func longest(text string) int {
	n := 0
	for word := range strings.FieldsSeq(clean(text)) {
		n = max(n, columns(word))
	}
	return n
}

// pad returns the blanks that text lacks to a width.
func pad(text string, width int) string { return strings.Repeat(" ", max(0, width-columns(text))) }

func (p *printer) evidence(all []string, indent int) {
	for _, text := range all {
		p.paragraph(dim, "- "+text, indent)
	}
}

// boxes draws the path in rows of boxes, as many per row as fit. The limit has a different
// border, and a label.
func (p *printer) boxes(path []report.Box) {
	const between = 3
	var row []report.Box
	used := 2
	for _, b := range path {
		w := boxWidth(b, p.width-4)
		if len(row) > 0 && used+between+w+columns(goesOnMark) > p.width {
			p.boxRow(row, true)
			row, used = nil, 2
		}
		if len(row) > 0 {
			used += between
		}
		row, used = append(row, b), used+w
	}
	if len(row) > 0 {
		p.boxRow(row, false)
	}
}

// boxWidth returns the width of a box with its borders, at most most columns.
func boxWidth(b report.Box, most int) int {
	w := max(columns(clean(b.Name)), columns(clean(b.Detail)))
	if b.Limiting {
		w = max(w, columns(limitingWord))
	}
	return min(w+4, most)
}

const (
	limitingWord = "limits"
	goesOnMark   = " -" // at the end of a row that continues
)

// boxRow draws one row; goesOn says that another one follows.
func (p *printer) boxRow(row []report.Box, goesOn bool) {
	limiting := false
	for _, b := range row {
		limiting = limiting || b.Limiting
	}
	lines := 4
	if limiting {
		lines = 5
	}
	for n := range lines {
		var line strings.Builder
		line.WriteString("  ")
		for i, b := range row {
			line.WriteString(p.boxLine(b, n))
			switch {
			case i+1 < len(row) && n == 1:
				line.WriteString("---")
			case i+1 < len(row):
				line.WriteString("   ")
			case goesOn && n == 1:
				line.WriteString(goesOnMark)
			}
		}
		p.line(line.String())
	}
}

// boxLine returns the n-th line of a box: border, name, detail, border, and the label below.
func (p *printer) boxLine(b report.Box, n int) string {
	w := boxWidth(b, p.width-4)
	corner, across, down, s := "+", "-", "|", normal
	if b.Limiting {
		corner, across, down, s = "#", "=", "#", red
	}
	inside := func(text string) string {
		text = cut(clean(text), w-4)
		return p.paint(s, down+" "+text+pad(text, w-4)+" "+down)
	}
	switch n {
	case 0, 3:
		return p.paint(s, corner+strings.Repeat(across, w-2)+corner)
	case 1:
		return inside(b.Name)
	case 2:
		return inside(b.Detail)
	}
	word := ""
	if b.Limiting {
		word = "  " + limitingWord
	}
	return p.paint(s, word) + pad(word, w)
}

// cut shortens a text to fit a box, with a mark at the end.
func cut(s string, width int) string {
	if columns(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(0, width-1)]) + "…"
}
