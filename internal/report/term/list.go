package term

import (
	"fmt"
	"io"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/report"
)

// widthForTimes is the least width of a list with a column of times; the ID begins with the
// time too.
const widthForTimes = 100

// RenderList writes a list of sessions: a line for each, and below it the hosts and the result,
// or why it ended.
func RenderList(w io.Writer, l report.List, o Options) error {
	p := newPrinter(o)
	if len(l.Sessions) == 0 {
		p.line("no sessions yet")
		return p.flush(w)
	}
	header := []cell{left("id"), left("age"), left("kind"), left("state"), right("goodput to / from")}
	started := p.width >= widthForTimes
	if started {
		header = append([]cell{header[0], left("started")}, header[1:]...)
	}
	var rows [][]cell
	for _, s := range l.Sessions {
		row := []cell{whole(s.ID)}
		if started {
			row = append(row, whole(s.Created.In(p.zone).Format("2006-01-02 15:04")))
		}
		rows = append(rows, append(row, whole(Age(l.Now.Sub(s.Created))), whole(string(s.Kind)), whole(string(s.State)), right(rates(s.Texts()))))
	}
	columns := p.fit(rows, header)
	p.heading(columns)
	for i, s := range l.Sessions {
		p.row(rows[i], columns)
		p.paragraph(normal, s.What(), 2*tableIndent)
		if s.Note != "" {
			p.paragraph(normal, "note: "+s.Note, 2*tableIndent)
		}
	}
	return p.flush(w)
}

// Age formats a time span in short form.
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/day)
}

// rates formats the results to the far end and from it, with a common unit only once.
func rates(texts map[model.Direction]string) string {
	to, from := texts[model.To], texts[model.From]
	switch number, unit, _ := strings.Cut(to, " "); {
	case to == "" && from == "":
		return "-"
	case from == "":
		return to
	case to == "":
		return "- / " + from
	case strings.HasSuffix(from, " "+unit):
		return number + " / " + from
	}
	return to + " / " + from
}
