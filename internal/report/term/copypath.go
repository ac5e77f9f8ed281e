package term

import (
	"fmt"
	"io"
	"slices"

	"linerate/internal/core/units"
	"linerate/internal/report"
)

// RenderPath writes the report of copies over a mounted path to w, like Render.
func RenderPath(w io.Writer, d report.PathDocument, o Options) error {
	p := newPrinter(o)
	p.paragraph(bold, d.Folder+", "+d.Volume, 0)
	p.gap()
	var rows [][]string
	var ways []string
	for _, r := range d.Rows {
		spread, flush := "", ""
		if r.Files > 1 {
			spread = r.Low.String() + " to " + r.High.String()
		}
		if r.Flush > 0 {
			flush = units.FormatShare(r.Flush)
		}
		rows = append(rows, []string{r.Operation, r.Size.String(), r.Rate.String(), spread, flush, fmt.Sprint(r.Files)})
		for _, how := range r.How {
			if text := r.Operation + ": " + how; !slices.Contains(ways, text) {
				ways = append(ways, text)
			}
		}
	}
	p.table([]string{"", ">size", ">median", ">range", ">flushing", ">files"}, rows, nil)
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
