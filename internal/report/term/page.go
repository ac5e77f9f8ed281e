package term

import (
	"fmt"
	"io"
	"math"
	"strings"

	"linerate/internal/report"
)

// Page is formatted output other than a report: titles, texts and tables.
type Page struct{ p *printer }

// NewPage returns an empty page.
func NewPage(o Options) Page { return Page{newPrinter(o)} }

// AnyWidth is the width for output without a terminal: no lines are broken.
const AnyWidth = math.MaxInt32

// Title writes a title, after an empty line unless it is the first.
func (g Page) Title(format string, args ...any) {
	g.p.gap()
	g.Text(format, args...)
}

// Text writes a paragraph.
func (g Page) Text(format string, args ...any) {
	g.p.paragraph(normal, fmt.Sprintf(format, args...), 0)
}

// Gap writes an empty line unless the last line is empty.
func (g Page) Gap() { g.p.gap() }

// Note writes a paragraph below a table.
func (g Page) Note(text string) { g.p.paragraph(normal, text, tableIndent) }

// Field writes a text after a label of width columns, or nothing if the text is empty.
func (g Page) Field(width int, label, text string) {
	if text != "" {
		head := strings.Repeat(" ", tableIndent) + label + pad(label, width) + " "
		g.p.hanging(head, columns(head), text)
	}
}

// Line writes one line, however long.
func (g Page) Line(text string) { g.p.line(clean(text)) }

// Command writes a step.
func (g Page) Command(n report.Step) { g.p.command(n) }

// Table writes rows below header, which is nil for none. The result of below goes under its
// row; below may be nil. The name of a column of numbers begins with >.
func (g Page) Table(header []string, rows [][]string, below func(row int) string) {
	g.p.table(header, rows, below)
}

func (p *printer) table(header []string, rows [][]string, below func(row int) string) {
	if len(rows) == 0 {
		return
	}
	names, cells := texts(header, rows)
	l := p.fit(cells, names)
	p.heading(l)
	for i, row := range cells {
		p.row(row, l)
		if below != nil && below(i) != "" {
			p.paragraph(normal, below(i), 2*tableIndent)
		}
	}
}

// Fits reports whether a table fits in the width without line breaks.
func (g Page) Fits(header []string, rows [][]string) bool {
	wide := printer{width: AnyWidth}
	names, cells := texts(header, rows)
	return wide.fit(cells, names).used()-separator <= g.p.width
}

func texts(header []string, rows [][]string) (names []cell, cells [][]cell) {
	for _, name := range header {
		if number, ok := strings.CutPrefix(name, ">"); ok {
			names = append(names, right(number))
		} else {
			names = append(names, left(name))
		}
	}
	for _, row := range rows {
		out := make([]cell, len(row))
		for i, text := range row {
			out[i] = cell{text: text}
			if names != nil {
				out[i].right, out[i].whole = names[i].right, names[i].whole
			}
		}
		cells = append(cells, out)
	}
	return names, cells
}

// Print writes the page.
func (g Page) Print(w io.Writer) error { return g.p.flush(w) }
