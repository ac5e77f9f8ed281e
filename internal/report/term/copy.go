package term

import (
	"fmt"
	"io"
	"slices"

	"linerate/internal/core/units"
	"linerate/internal/report"
)

// copies prints one direction: the rates, then what limits each copy, then how
// everything was done.
func (p *printer) copies(size units.Bytes, c report.CopyDirection) {
	title := fmt.Sprintf("copies from %s to %s", c.Sender, c.Receiver)
	if size > 0 {
		title += ", " + size.String()
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

// RenderPath writes the report of copies by way of a mounted path to w, as
// Render does.
func RenderPath(w io.Writer, d report.PathDocument, o Options) error {
	p := newPrinter(o)
	p.paragraph(bold, d.Folder+", "+d.Volume, 0)
	p.gap()
	var (
		rows [][]cell
		ways []string
	)
	for _, r := range d.Rows {
		spread, flush := "", ""
		if r.Files > 1 {
			spread = r.Low.String() + " to " + r.High.String()
		}
		if r.Flush > 0 {
			flush = report.FormatShare(r.Flush)
		}
		rows = append(rows, []cell{left(r.Operation), right(r.Size.String()), right(r.Rate.String()), right(spread), right(flush), right(fmt.Sprint(r.Files))})
		for _, how := range r.How {
			if text := r.Operation + ": " + how; !slices.Contains(ways, text) {
				ways = append(ways, text)
			}
		}
	}
	p.grid(rows, []cell{left(""), right("size"), right("median"), right("range"), right("flushing"), right("files")})
	p.gap()
	for _, how := range ways {
		p.paragraph(dim, how, 2)
	}
	p.gap()
	for _, text := range d.Warnings {
		p.paragraph(yellow, "warning: "+text, 2)
	}
	return p.flush(w)
}
