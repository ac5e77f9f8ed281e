package term

import (
	"io"

	"linerate/internal/report"
)

// Compared is two sessions side by side, for people.
type Compared struct {
	Ends   []string   // a line for each session
	Header []string   // names of the columns
	Rows   [][]string // the first two columns are text, the others numbers
	Text   string     // what is to be thought of it
	Next   report.Step
}

// RenderCompared writes c to w.
func RenderCompared(w io.Writer, c Compared, o Options) error {
	p := newPrinter(o)
	for _, text := range c.Ends {
		p.paragraph(normal, text, 0)
	}
	p.gap()
	cells := func(texts []string) []cell {
		out := make([]cell, len(texts))
		for i, text := range texts {
			if out[i] = right(text); i < 2 {
				out[i] = left(text)
			}
		}
		return out
	}
	rows := make([][]cell, len(c.Rows))
	for i, r := range c.Rows {
		rows[i] = cells(r)
	}
	p.grid(rows, cells(c.Header))
	p.gap()
	p.paragraph(normal, c.Text, 2)
	p.command(c.Next)
	return p.flush(w)
}
