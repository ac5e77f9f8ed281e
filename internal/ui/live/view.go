package live

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/report"
	"linerate/internal/report/term"
)

// style is an SGR sequence (ECMA-48, section 8.3.117) without its frame. A word always says the
// same as the style, so that nothing is lost without colours.
type style string

const (
	normal style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// span is text in one style, line a row of the screen.
type (
	span struct {
		style style
		text  string
	}
	line []span
)

func text(s style, words string) line { return line{{s, plain.Line(words)}} }

func (l line) columns() (n int) {
	for _, s := range l {
		n += utf8.RuneCountInString(s.text)
	}
	return n
}

// cut shortens l to at most width columns.
func (l line) cut(width int) line {
	var out line
	for _, s := range l {
		r := []rune(s.text)
		if len(r) > width {
			return append(out, span{s.style, string(r[:max(0, width)])})
		}
		out, width = append(out, s), width-len(r)
	}
	return out
}

// String returns l with its styles.
func (l line) String() string {
	var b strings.Builder
	for _, s := range l {
		if s.style == normal || s.text == "" {
			b.WriteString(s.text)
			continue
		}
		b.WriteString("\x1b[" + string(s.style) + "m" + s.text + "\x1b[0m")
	}
	return b.String()
}

// apart puts left and right at the two sides of a row; right is dropped if there is no room for
// both.
func apart(left, right line, width int) line {
	gap := width - left.columns() - right.columns()
	if gap < 2 {
		return left.cut(width)
	}
	return append(append(left, span{normal, strings.Repeat(" ", gap)}), right...)
}

// Size is a terminal's size, in columns and rows.
type Size struct{ Columns, Rows int }

// least raises s to the smallest size that is drawn; a smaller terminal shows a part of it.
func (s Size) least() Size { return Size{max(s.Columns, 20), max(s.Rows, 6)} }

// View returns the screen in the given size, rows separated by line ends, with colours. Rows are
// never more, nor wider, than the size; the least important ones are dropped.
func (t *State) View(size Size) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	size = size.least()
	head := append(t.head(size.Columns), t.traffic(size)...)
	foot := []line{t.keys(size.Columns)}
	room := size.Rows - len(head) - len(foot)
	table, said := t.table(size.Columns), t.said(size.Columns)
	// The lines for the user keep a third of the remaining room; the table comes first.
	forSaid := min(len(said), max(room/3, room-len(table)))
	table = shorter(table, room-forSaid)
	said = said[len(said)-max(0, min(len(said), room-len(table))):]
	all := slices.Concat(head, table, said)
	for len(all) < size.Rows-len(foot) {
		all = append(all, nil)
	}
	all = append(all[:min(len(all), size.Rows-len(foot))], foot...)
	rows := make([]string, len(all))
	for i, l := range all {
		rows[i] = l.cut(size.Columns).String()
	}
	return strings.Join(rows, "\n")
}

// shorter cuts a table to room rows, the last of which says what is left out.
func shorter(table []line, room int) []line {
	if len(table) <= room {
		return table
	}
	if room < 3 {
		return nil
	}
	more := len(table) - room + 1
	return append(slices.Clone(table[:room-1]), text(dim, fmt.Sprintf("  and %d lines more", more)))
}

// head shows what is done, how far it is, and how long it may take.
func (t *State) head(width int) []line {
	s := t.session
	what := line{{bold, "linerate " + plain.Line(t.command)}, {normal, "  " + plain.Line(t.names.Arrow(model.To))}}
	passed := text(normal, units.FormatDuration(t.now().Sub(t.began).Truncate(time.Second)))
	if title := text(dim, "  "+s.Title); s.Title != "" && what.columns()+title.columns()+2+passed.columns() <= width {
		what = append(what, title...)
	}
	rows := []line{apart(what, passed, width)}
	left, known := t.left()
	rest := text(normal, t.bound()+units.FormatDuration(left.Round(time.Second))+" more")
	if !known {
		rest = nil
	}
	where, phase := t.where(), t.doing()
	switch whole := slices.Concat(where, phase); {
	case whole.columns()+2+rest.columns() <= width:
		rows = append(rows, apart(whole, rest, width))
	case whole.columns() <= width:
		rows = append(rows, whole, rest)
	default:
		rows = append(rows, where, phase, rest)
	}
	if known {
		rows = append(rows, bar(t.share(left), width))
	}
	if t.pause == Paused {
		words, s := "nothing is sent, and both hosts are as they were: whatever a run changed is undone", normal
		if len(t.still) > 0 {
			words, s = "not undone: "+strings.Join(t.still, "; "), red
		}
		rows = append(rows, wrapped("", words, s, width)...)
	}
	return append(rows, nil)
}

// nearlyDone is the largest share shown while a session runs.
const nearlyDone = 0.99

// share returns how much of the session is done. It never falls: additional work takes its time
// from the rest.
func (t *State) share(left time.Duration) float64 {
	share := 0.0
	if whole := t.worked() + left; whole > 0 {
		share = float64(t.worked()) / float64(whole)
	}
	t.done = max(t.done, min(share, nearlyDone))
	return t.done
}

// bar shows a share of a whole.
func bar(share float64, width int) line {
	room := width - len(" 100 %")
	done := min(room, int(share*float64(room)))
	return line{{green, strings.Repeat("━", done)}, {dim, strings.Repeat("─", room-done)}, {normal, fmt.Sprintf(" %3.0f %%", 100*share)}}
}

// where names the current part of the session.
func (t *State) where() line {
	var parts []string
	unit, p := t.unit(), t.at
	if t.stage != "" {
		parts = append(parts, t.stage)
	}
	if p.MaxBlocks > 1 {
		parts = append(parts, fmt.Sprintf("%s %s of %d", unit, number(p.Block), p.MaxBlocks))
	} else if p.Block > 1 {
		parts = append(parts, fmt.Sprintf("%s %d", unit, p.Block))
	}
	if p.RunsInBlock > 1 && p.Position > 0 {
		parts = append(parts, fmt.Sprintf("run %d of %d", p.Position, p.RunsInBlock))
	}
	if p.Setting != "" && len(t.session.Plan.Settings) != 1 {
		parts = append(parts, plain.Line(p.Setting))
	}
	if len(parts) == 0 {
		return nil
	}
	return text(normal, strings.Join(parts, ", ")+": ")
}

// doing shows the phase.
func (t *State) doing() line {
	switch t.pause {
	case Paused:
		return text(yellow, "paused since "+units.FormatDuration(t.now().Sub(t.pausedSince).Truncate(time.Second)))
	case Pausing:
		return line{{bold, t.phase}, {yellow, ", then pauses"}}
	case Going:
	}
	return text(bold, t.phase)
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// traffic has a row for each direction: the current rate, earlier ones, the round trip; and if
// there is room one with the rates of the whole session.
func (t *State) traffic(size Size) []line {
	var rows []line
	width := size.Columns
	names := make([]string, len(t.ways))
	longest := 0
	for i, l := range t.ways {
		names[i] = plain.Line(t.names.Way(l.direction))
		longest = max(longest, utf8.RuneCountInString(names[i]))
	}
	longest = min(longest, max(6, width/4))
	for i, l := range t.ways {
		rows = append(rows, l.row(fitted(names[i], longest), width))
		if of := t.history(l, longest+20, size); of != nil {
			rows = append(rows, of)
		}
	}
	if len(rows) > 0 {
		rows = append(rows, nil)
	}
	return rows
}

// row shows a direction in one row.
func (l *way) row(name string, width int) line {
	if l.tells.Rates == nil && !l.running {
		_, measured := l.trip.Get()
		if !measured {
			return append(text(normal, "  "+name), span{dim, "  nothing yet"})
		}
	}
	shade := dim
	if l.running && !l.stale {
		shade = bold
	}
	rate := "-"
	if r, ok := l.rate(); ok {
		rate = r.String()
	}
	out := line{{normal, "  " + name}, {shade, fmt.Sprintf("  %14s", rate)}}
	var trip line
	if d, ok := l.trip.Get(); ok {
		of := "round trip "
		if width < 60 {
			of = "rtt "
		}
		trip = line{{normal, "  " + of}, {shade, units.FormatDuration(Brief(d))}}
	}
	if room := width - out.columns() - trip.columns() - 4; room >= 8 {
		out = append(out, span{green, "  " + plain.Spark(values(l.tells.Rates), min(room, 40))})
	}
	return append(out, trip...)
}

// Brief rounds a time to two or three digits.
func Brief(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}

func fitted(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s + strings.Repeat(" ", width-utf8.RuneCountInString(s))
}

// table shows the session's results so far.
func (t *State) table(width int) []line {
	var rows []line
	switch {
	case len(t.ideas) > 0:
		rows = t.ideaRows(width)
	case len(t.stands) > 0:
		rows = t.standRows(width)
	default:
		rows = t.runRows(width)
	}
	if len(rows) > 0 {
		rows = append(rows, nil)
	}
	return rows
}

// standRows lists the settings of an experiment: decided ones, and those in play.
func (t *State) standRows(width int) []line {
	open := 0
	for _, s := range t.stands {
		if s.Outcome == model.Undecided {
			open++
		}
	}
	title := fmt.Sprintf("settings against %s: %d of %d in play", plain.Line(t.session.Plan.Baseline), open, len(t.stands))
	rows := []line{text(bold, title)}
	several := false
	for _, s := range t.stands {
		several = several || s.Direction != t.stands[0].Direction
	}
	for _, s := range t.stands {
		name := s.Setting
		if several {
			name += " " + string(s.Direction)
		}
		mark, shade := "  ", normal
		if s.Setting == t.at.Setting && t.pause != Paused && (!several || s.Direction == t.at.Direction) {
			mark = "> "
		}
		switch s.Outcome {
		case model.Better:
			shade = green
		case model.Worse:
			shade = red
		case model.Equivalent:
			shade = dim
		case model.Undecided:
		}
		rows = append(rows, wrapped(mark, name+": "+s.Text, shade, width)...)
	}
	if e := t.lead; e.setting != "" && e.decides > 0 {
		rows = append(rows, text(dim, fmt.Sprintf("  evidence for %s: %.3g of the %.3g that decide", plain.Line(e.setting), e.has, e.decides)))
	}
	return rows
}

// wrapped wraps text after a mark, in as many rows as it takes.
func wrapped(mark, words string, s style, width int) []line {
	var rows []line
	for i, part := range term.Wrap(plain.Line(words), width-2, width-4) {
		if i > 0 {
			mark = "    "
		}
		rows = append(rows, line{{normal, mark}, {s, part}})
	}
	return rows
}

// ideaRows lists the ideas of a search: those in play first.
func (t *State) ideaRows(width int) []line {
	var play, done []line
	n := 0
	for _, f := range t.ideas {
		words := report.Fate(f, t.decides)
		mark := "  "
		if f.Setting.Name == t.at.Setting && t.pause != Paused {
			mark = "> "
		}
		switch f.State {
		case tune.Waiting, tune.Racing:
			play = append(play, wrapped(mark, words, normal, width)...)
			n++
		case tune.Helped:
			done = append(done, wrapped(mark, words, green, width)...)
		case tune.Harmful, tune.Guarded, tune.Broke:
			done = append(done, wrapped(mark, words, red, width)...)
		default:
			done = append(done, wrapped(mark, words, dim, width)...)
		}
	}
	title := fmt.Sprintf("settings worth a try: %d of %d in play", n, len(t.ideas))
	return slices.Concat([]line{text(bold, title)}, play, done)
}

// runRows lists the finished runs, the newest first.
func (t *State) runRows(width int) []line {
	if len(t.ended) == 0 || len(t.ended) == 1 && len(t.session.Plan.Tests) == 0 {
		return nil
	}
	rows := []line{text(bold, "done so far")}
	for _, r := range slices.Backward(t.ended) {
		name, words := fmt.Sprintf("run %d", r.Number), ""
		if len(t.session.Plan.Settings) != 1 && r.Setting != "" {
			name = r.Setting
		}
		for _, d := range r.Flow.Direction.Parts() {
			if v, ok := r.Value(d, model.Goodput); ok {
				words += ", " + string(d) + " " + units.BitRate(v).String()
			}
			if v, ok := r.Value(d, model.LossRatio); ok {
				words += fmt.Sprintf(", %s lost", units.FormatShare(v))
			}
			if v, ok := r.Value(d, model.LatencyP50); ok {
				words += ", " + units.FormatDuration(Brief(seconds(v))) + " median latency"
			}
		}
		switch r.State {
		case model.RunValid:
		case model.RunEqualLoad:
			words += ", at the baseline's rate"
		default:
			words += ", " + string(r.State) + ": " + r.Reason
		}
		rows = append(rows, wrapped("  ", name+": "+strings.TrimPrefix(words, ", "), normal, width)...)
	}
	return rows
}

// said lists the lines for the user, the newest last.
func (t *State) said(width int) []line {
	var rows []line
	for _, l := range t.lines {
		rows = append(rows, wrapped("", l, normal, width)...)
	}
	return rows
}

// keys lists the available keys.
func (t *State) keys(width int) line {
	first := "p pauses after this run"
	switch t.pause {
	case Pausing:
		first = "p does not pause"
	case Paused:
		first = "p goes on"
	case Going:
	}
	if l := text(dim, first+"   q stops: hosts undone, data kept"); l.columns() <= width {
		return l
	}
	return text(dim, strings.Replace(first, " after this run", "", 1)+"   q stops")
}
