package live

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// View returns the screen in the given size, rows separated by line ends, with colours. Rows are
// never more, nor wider, than the size.
func (t *Server) View(size Size) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	size = size.least()
	if t.own {
		return text(dim, "l shows who measures   q stops").cut(size.Columns).String()
	}
	head := t.head(size.Columns)
	var foot line
	for _, words := range []string{"l shows what stood here, with the link   q stops", "l shows the link   q stops", "l link   q stops"} {
		if foot = text(dim, words); foot.columns() <= size.Columns {
			break
		}
	}
	sections := [][]line{t.visitors(size.Columns), t.budget(size.Columns), t.away(size.Columns), t.ended(size.Columns), t.said(size.Columns)}
	all := slices.Concat(head, fair(sections, size.Rows-len(head)-1))
	for len(all) < size.Rows-1 {
		all = append(all, nil)
	}
	all = append(all[:size.Rows-1], foot)
	rows := make([]string, len(all))
	for i, l := range all {
		rows[i] = l.cut(size.Columns).String()
	}
	return strings.Join(rows, "\n")
}

// roomOf is the least number of rows for a section, including the one before it.
const roomOf = 4

// fair shortens sections to room rows together. The first one may take half, and the second one
// all but a little for the others. Of these the short ones stay whole, and the long ones share
// the rest. If that is next to nothing, the last ones are dropped. An empty row separates
// sections.
func fair(sections [][]line, room int) []line {
	sections = slices.DeleteFunc(sections, func(s []line) bool { return len(s) == 0 })
	sections = sections[:min(len(sections), max(1, room/roomOf))]
	room -= len(sections) - 1
	first := sections[0]
	others := 0
	for _, s := range sections[1:] {
		others += len(s)
	}
	sections[0] = shorter(first, max(room/2, room-others))
	room -= len(sections[0])
	order := make([]int, len(sections)-1)
	for i := range order {
		order[i] = i + 1
	}
	if len(order) > 1 {
		slices.SortStableFunc(order[1:], func(a, b int) int { return len(sections[a]) - len(sections[b]) })
	}
	for n, i := range order {
		most := room / (len(order) - n)
		if n == 0 {
			most = max(most, room-(roomOf-1)*(len(order)-1))
		}
		sections[i] = shorter(sections[i], max(0, most))
		room -= len(sections[i])
	}
	var all []line
	for _, s := range sections {
		if len(s) > 0 && len(all) > 0 {
			all = append(all, nil)
		}
		all = append(all, s...)
	}
	return all
}

// head describes the server and the number of visitors.
func (t *Server) head(width int) []line {
	passed := text(normal, forTime(t.now().Sub(t.began)))
	rows := []line{apart(line{{bold, "linerate serve"}, {normal, "  " + plain.Line(t.about.Addr)}}, passed, width)}
	for _, r := range t.about.Rows {
		rows = append(rows, wrapped("", r, normal, width)...)
	}
	return append(rows, nil)
}

// forTime formats a running time.
func forTime(d time.Duration) string { return units.FormatDuration(d.Truncate(time.Second)) }

// visitors lists the visitors and their measurements; measuring ones first.
func (t *Server) visitors(width int) []line {
	if len(t.here) == 0 {
		return []line{text(bold, "no client is here now")}
	}
	measuring := 0
	for _, v := range t.here {
		if !v.run.IsZero() {
			measuring++
		}
	}
	rows := []line{text(bold, fmt.Sprintf("%s, %d of them %s", plain.Count(len(t.here), "visitor"), measuring, "measuring now"))}
	if measuring == len(t.here) {
		rows[0] = text(bold, plain.Count(len(t.here), "visitor")+", measuring now")
	}
	var waiting []line
	for _, v := range t.here {
		if v.run.IsZero() {
			waiting = append(waiting, t.row(v, width)...)
			continue
		}
		rows = append(rows, t.row(v, width)...)
	}
	return append(rows, waiting...)
}

// row shows a visit: the client and since when, and below that its measurement.
func (t *Server) row(v *visitor, width int) []line {
	since := text(dim, "for "+forTime(t.now().Sub(v.since)))
	name := line{{normal, "  " + who(v.Visit)}, {dim, "  " + plain.Line(v.Protocol)}}
	if v.run.IsZero() {
		words := "no run yet"
		if v.runs > 0 {
			words = "between runs"
		}
		return []line{apart(name, since, width), text(dim, "    "+words)}
	}
	rows := []line{apart(name, since, width)}
	what := v.what
	if v.flow.Streams > 1 {
		what += fmt.Sprintf(", %d streams", v.flow.Streams)
	}
	ways := []struct {
		verb  string
		rates []float64
	}{{"receives", v.receives}, {"sends", v.sends}}
	for _, w := range ways {
		if len(w.rates) == 0 {
			continue
		}
		left := line{{normal, "    " + what + ", " + w.verb}, {bold, fmt.Sprintf("  %s", units.BitRate(w.rates[len(w.rates)-1]))}}
		if len(rows) > 1 {
			left[0].text = "    " + strings.Repeat(" ", utf8.RuneCountInString(what)) + "  " + w.verb
		}
		if room := min(width-left.columns()-2, 30); room >= 8 {
			left = append(left, span{green, "  " + strings.TrimRight(plain.Spark(w.rates, room), " ")})
		}
		rows = append(rows, left)
	}
	if len(rows) == 1 { // no interval yet, or none reported
		words := map[model.Direction]string{model.To: ", to this host", model.From: ", from this host", model.Both: ", both ways"}
		rows = append(rows, text(normal, "    "+what+words[v.flow.Direction]))
	}
	return rows
}

// wideTable is the width from which a budget includes the share of an address.
const wideTable = 70

// budget shows how much of each kind of resource is used.
func (t *Server) budget(width int) []line {
	if len(t.gives) == 0 {
		return nil
	}
	table := [][]string{{"gives away", "used", "of", "one address", "refused"}}
	for _, a := range t.gives {
		row := []string{"  " + a.Name, a.Used, a.Limit, a.Source, ""}
		if a.Refused > 0 {
			row[4] = fmt.Sprint(a.Refused)
		}
		table = append(table, row)
	}
	columns := len(table[0])
	if width < wideTable {
		columns = 3
	}
	var rows []line
	for n, row := range table {
		rows = append(rows, cells(table, row[:columns], n == 0))
		if columns < len(row) && n > 0 && row[4] != "" {
			rows = append(rows, text(yellow, "    refused: "+row[4]))
		}
	}
	return rows
}

// cells formats a row of a table: names to the left, numbers to the right.
func cells(table [][]string, row []string, head bool) line {
	var out line
	for i, cell := range row {
		if strings.Join(row[i:], "") == "" {
			break
		}
		wide := 0
		for _, r := range table {
			wide = max(wide, utf8.RuneCountInString(r[i]))
		}
		gap := strings.Repeat(" ", wide-utf8.RuneCountInString(cell))
		s := normal
		if head {
			s = bold
		} else if i == 4 {
			s = yellow
		}
		if i > 0 {
			out = append(out, span{text: "  " + gap}, span{s, cell})
		} else {
			out = append(out, span{s, cell}, span{text: gap})
		}
	}
	return out
}

// away lists the reasons for refusals, the most frequent first.
func (t *Server) away(width int) []line {
	if len(t.refused) == 0 {
		return nil
	}
	all := slices.Clone(t.refused)
	slices.SortStableFunc(all, func(a, b refusal) int { return b.count - a.count })
	rows := []line{text(bold, fmt.Sprintf("turned away: %d", t.turnedAway()))}
	for _, r := range all {
		words := fmt.Sprintf("%d times: %s", r.count, r.words)
		if r.count == 1 {
			words = "once: " + r.words
		}
		if r.last.IsValid() {
			words += ", last " + r.last.Unmap().String()
		}
		rows = append(rows, wrapped("  ", words, yellow, width)...)
	}
	return rows
}

// ended lists the finished runs, the newest first.
func (t *Server) ended(width int) []line {
	if len(t.done) == 0 {
		return nil
	}
	rows := []line{text(bold, "done")}
	for _, d := range slices.Backward(t.done) {
		words := d.at.Format(time.TimeOnly) + "  " + who(d.by) + ", " + d.by.Protocol
		if d.what != "" {
			words += " " + d.what
		}
		words += " for " + units.FormatDuration(Brief(d.Took))
		if d.Received > 0 {
			words += ", " + moved("received", d.Received, d.Took)
		}
		if d.Sent > 0 {
			words += ", " + moved("sent", d.Sent, d.Took)
		}
		shade := normal
		if d.Err != nil {
			words, shade = words+": "+d.Err.Error(), yellow
		}
		rows = append(rows, wrapped("  ", words, shade, width)...)
	}
	return rows
}

// said lists the lines for the user, the newest first.
func (t *Server) said(width int) []line {
	if len(t.lines) == 0 {
		return nil
	}
	rows := []line{text(bold, "said")}
	for _, l := range slices.Backward(t.lines) {
		rows = append(rows, wrapped("  ", l, normal, width)...)
	}
	return rows
}
