package term

import (
	"fmt"
	"io"

	"linerate/internal/core/model"
	"linerate/internal/report"
)

// RenderCopy writes the report of a session of file copies to w, as Render does.
func RenderCopy(w io.Writer, d report.CopyDocument, o Options) error {
	p := newPrinter(o)
	p.header(report.Document{Title: d.Title, Kind: d.Kind, Header: d.Header})
	for _, c := range d.Directions {
		p.copies(d, c)
	}
	for _, text := range d.Warnings {
		p.paragraph(yellow, "warning: "+text, 2)
	}
	p.gap()
	if d.State != model.SessionDone {
		p.paragraph(plain, d.Ending, 2)
	}
	for _, n := range d.Next {
		p.command(n)
	}
	return p.flush(w)
}

// copies prints one direction: the rates, then what limits each copy, then how
// everything was done.
func (p *printer) copies(d report.CopyDocument, c report.CopyDirection) {
	title := fmt.Sprintf("copies from %s to %s", c.Sender, c.Receiver)
	if d.Size > 0 {
		title += ", " + d.Size.String()
	}
	p.paragraph(bold, title, 2)
	var rows [][]cell
	for _, r := range c.Rows {
		spread := ""
		if r.Runs > 1 {
			spread = r.Low.String() + " to " + r.High.String()
		}
		rows = append(rows, []cell{left(r.Label), right(r.Rate.String()), right(spread), right(fmt.Sprint(r.Runs))})
	}
	p.grid(rows, []cell{left("from -> to"), right("median"), right("range"), right("runs")})
	p.gap()
	for _, r := range c.Rows {
		if r.Limit != "" {
			p.paragraph(plain, r.Label+": "+r.Limit, 2)
		}
	}
	p.gap()
	for _, how := range c.How {
		p.paragraph(dim, how, 2)
	}
	p.gap()
}
