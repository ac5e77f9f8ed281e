package format

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"linerate/internal/core/health"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/report"
	"linerate/internal/report/plot"
)

// Limits of the text.
const (
	TicketLines = 12
	TicketWidth = 76 // columns: mail programs do not wrap that, even quoted once
)

// TicketInput is the content of the lines.
type TicketInput struct {
	Session  model.Session
	Document report.Document
	Answer   []string // the answer, a sentence each; nil is report.Answer
}

// part is one statement: a list, with as many items as fit, and the number of those left out.
type part struct {
	head  string
	items []string
	most  int // lines
	drop  int // priority for dropping it if there is no space, from 1; 0 stays
	cut   int // of the parts that stay, the highest is cut to one line first; 0 is never cut
}

// Ticket renders a session as a few lines to paste for a colleague, a tracker or a
// provider. They say what was measured, compared with what, how, how often, when, and what was
// ruled out.
//
// The lines can be pasted anywhere: ASCII, no tabs, no leading blanks, and no markup for a code
// host (CommonMark), a tracker (Jira, Redmine) or a mail program. A mail program may also join
// them to one paragraph, so each sentence ends with a full stop.
//
// There are at most TicketLines lines of at most TicketWidth columns.
func Ticket(in TicketInput) []string {
	b := builder{s: in.Session, d: in.Document, answer: in.Answer}
	if len(b.answer) == 0 {
		b.answer = report.Answer(in.Document)
	}
	one := func(text string) []string {
		if text == "" {
			return nil
		}
		return []string{strings.TrimSuffix(text, ".")}
	}
	against, all := b.intervals()
	todo, intervals := part{"", one(b.todo()), 2, 4, 0}, part{against, all, 3, 0, 5}
	if b.settled() { // it says more than the interval of the third best setting
		todo.drop, intervals.most = 0, 2
	}
	parts := slices.DeleteFunc([]part{
		{"Result: ", b.claim(), 8, 0, 1}, intervals, {"", one(b.settings()), 2, 6, 4}, {"", one(b.rates()), 3, 0, 2}, {"", one(b.contract()), 2, 0, 3}, {"", one(b.path()), 1, 3, 0},
		{"", one(b.method()), 2, 0, 6}, {"", one(b.count()), 2, 0, 7}, {"", one(b.ruledOut()), 2, 5, 0}, {"", one(b.guards()), 2, 7, 9}, {"", one(b.doubts()), 2, 0, 8}, todo, {"", one(b.next()), 3, 2, 0}, {"", one(b.when()), 2, 0, 0}, {"", one(b.again()), 1, 1, 0},
	}, func(p part) bool { return len(p.items) == 0 })
	wanted := slices.Clone(parts)
	for len(set(parts)) > TicketLines {
		parts = shorter(parts)
	}
	for i := range parts { // give the remaining space to the parts that were cut, from the first one on
		for _, w := range wanted {
			for slices.Equal(w.items, parts[i].items) && parts[i].most < w.most {
				parts[i].most++
				if len(set(parts)) > TicketLines {
					parts[i].most--
					break
				}
			}
		}
	}
	return set(parts)
}

// set returns the lines of all parts.
func set(parts []part) []string {
	var out []string
	for _, p := range parts {
		out = append(out, p.lines()...)
	}
	return out
}

func (p part) lines() []string {
	for n := len(p.items); ; n-- {
		text := p.head + strings.Join(p.items[:n], "; ")
		if n < len(p.items) {
			text += fmt.Sprintf("; and %d more", len(p.items)-n)
		}
		if !strings.HasPrefix(text, "Next (") { // a command ends without a full stop
			text += "."
		}
		if all := wrap(clean(text), math.MaxInt); len(all) <= p.most {
			return all
		}
		if n == 1 {
			return wrap(clean(text), p.most)
		}
	}
}

// shorter drops the least important part, or shortens those that must stay.
func shorter(parts []part) []part {
	least := -1
	for i, p := range parts {
		if p.drop > 0 && (least < 0 || p.drop < parts[least].drop) {
			least = i
		}
	}
	if least >= 0 {
		return slices.Delete(parts, least, least+1)
	}
	most := -1
	for i, p := range parts {
		if p.most > 1 && p.cut > 0 && (most < 0 || p.cut > parts[most].cut) {
			most = i
		}
	}
	parts[most].most--                                                                                 // the twelve lines can hold all parts at one line each, so there is one
	if all := parts[most].lines(); parts[most].cut == 5 && strings.HasSuffix(all[len(all)-1], "...") { // half an interval has no meaning
		return slices.Delete(parts, most, most+1)
	}
	return parts
}

type builder struct {
	s      model.Session
	d      report.Document
	answer []string
}

// when states the time, and the two ends.
func (b builder) when() string {
	when := b.d.Created.UTC().Format("2006-01-02 15:04")
	if !report.Dated(b.s) {
		when = "unknown"
	}
	switch e := b.s.Ended.UTC(); {
	case b.s.Kind == model.KindImported:
		when += ", imported " + e.Format("2006-01-02 15:04")
	case !b.s.Ended.IsZero():
		layout := "15:04"
		if e.Format("2006-01-02") != b.d.Created.UTC().Format("2006-01-02") {
			layout = "2006-01-02 15:04"
		}
		when += " to " + e.Format(layout)
	}
	if b.s.Mesh != nil {
		return fmt.Sprintf("When: %s UTC, between %s.", when, b.d.Between())
	}
	return fmt.Sprintf("When: %s UTC, between %s%s and %s%s.", when, b.d.Header.Near, b.kernel(model.Near), b.d.Header.Far, b.kernel(model.Far))
}

func (b builder) kernel(h model.Host) string {
	f, _ := b.s.Facts(h)
	text := strings.TrimSpace(f.OS + " " + f.Kernel.Or(""))
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// claim returns the answer.
func (b builder) claim() []string {
	if b.d.Untrustworthy != "" {
		return []string{"no verdict counts: " + b.d.Untrustworthy}
	}
	var said []string
	for _, state := range []health.State{health.Bad, health.Poor} {
		if graded := b.graded(state); len(graded) > 0 {
			said = append(said, string(state)+": "+strings.Join(graded, ", "))
		}
	}
	return append(said, lists.Each(b.answer, func(a string) string { return strings.TrimSuffix(a, ".") })...)
}

// graded lists the aspects of a check with that state, but for the speed, which the answer has.
func (b builder) graded(state health.State) (said []string) {
	if b.d.Check == nil {
		return nil
	}
	for _, l := range b.d.Check.Lines {
		if l.State == state && l.Thing != "speed" {
			said = append(said, strings.TrimSpace(l.Label+" "+l.Number))
		}
	}
	return said
}

// rates states the rates of the directions with the baseline, and the path's ceiling by the
// rates of its links and its packets. For a confirmed search, or an experiment with its best
// setting, it states those before and after.
func (b builder) rates() string {
	var said []string
	if m := b.d.Measured; len(m) > 0 && b.s.Plan.Decides() == model.Goodput {
		for _, v := range m {
			said = append(said, v.Label+" "+v.Text)
		}
		if v, ok := b.d.Header.Ceiling.Get(); ok {
			said = append(said, "ceiling "+v.String())
		}
		return "Payload: " + strings.Join(said, "; ") + "."
	}
	for _, l := range b.d.Lines {
		text := l.Label + " " + l.Goodput.String()
		if l.Runs > 1 {
			text += fmt.Sprintf(" (median of %d runs)", l.Runs)
		}
		if v, ok := l.Ceiling.Get(); ok {
			text += ", ceiling " + v.String()
			if share, ok := l.Share.Get(); ok {
				text += fmt.Sprintf(" (%s of it)", report.OfCeiling(share, report.Percent))
			}
		}
		said = append(said, text)
	}
	if len(said) == 0 && b.s.Mesh != nil { // the answer of a mesh has the rates
		return ""
	}
	if len(said) == 0 {
		if v, ok := b.d.Header.Ceiling.Get(); ok {
			return "The ceiling of the path is " + v.String() + " of payload."
		}
		return "The ceiling of the path is not known."
	}
	with := ""
	if len(b.s.Plan.Settings) > 1 {
		with = " with " + b.s.Plan.Baseline
	}
	return "Payload" + with + ": " + strings.Join(said, "; ") + "."
}

// intervals returns the intervals of the settings on the objective, the best ones first.
func (b builder) intervals() (head string, said []string) {
	for _, t := range b.d.Tables {
		if !t.Objective || b.d.Untrustworthy != "" {
			continue
		}
		rows := slices.Clone(t.Rows)
		slices.SortStableFunc(rows, func(x, y report.Row) int {
			if t.LowerIs == "better" {
				x, y = y, x
			}
			return cmp.Compare(float64(y.Change), float64(x.Change))
		})
		for _, r := range rows {
			if !r.IsTwin && r.RangeText != "" {
				said = append(said, fmt.Sprintf("%s %s (%s), %d blocks", r.Setting, r.ChangeText, r.RangeText, r.Blocks))
			}
		}
	}
	return fmt.Sprintf("Against %s, intervals of %s: ", b.s.Plan.Baseline, units.Percent(100*b.s.Plan.Confidence)), said
}

// settings explains the names of settings: the baseline's and the best one's.
func (b builder) settings() string {
	if b.d.Grid != nil {
		said := lists.Each(b.d.Grid.Factors, func(f report.GridFactor) string { return f.Text })
		return strings.Join(said, "; ") + "."
	}
	if b.s.Kind == model.KindImported {
		return "" // nothing but the names is known
	}
	var said []string
	for _, s := range b.s.Plan.Settings {
		var set []string
		for _, a := range s.Assignments {
			text := string(a.Knob) + "=" + a.Value
			if a.Host == model.Near || a.Host == model.Far {
				text += " on " + b.d.Header.Of(a.Host)
			}
			set = append(set, text)
		}
		if len(set) > 0 && s.Name != b.s.Plan.Twin && strings.Join(set, " ") != s.Name {
			said = append(said, s.Name+" is "+strings.Join(set, " and "))
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "Settings: " + strings.Join(said, ", ") + "."
}

// path states its conditions.
func (b builder) path() string {
	of := b.d.Header.Conditions()
	if len(of) == 0 {
		return ""
	}
	return "Path: " + strings.Join(of, ", ") + "."
}

// contract states the demands of --expect, and whether they are met.
func (b builder) contract() string {
	if b.d.Check == nil || len(b.d.Check.Expect) == 0 {
		return ""
	}
	var said []string
	for _, m := range b.d.Check.Expect {
		state := "not met"
		if m.Met {
			state = "met"
		}
		said = append(said, fmt.Sprintf("%s is %s (%s)", m.Clause, state, m.Text))
	}
	return "Demanded: " + strings.Join(said, "; ") + "."
}

// method states how it was measured.
func (b builder) method() string {
	p := b.s.Plan
	text := "Method: linerate"
	if len(b.s.Command) > 1 {
		text += " " + plain.ShellLine(b.s.Command[1:]) // the first word is the program's path
	}
	text += " (version " + b.s.Version + ")"
	if length, omit := report.RunLength(p); length != "" {
		text += fmt.Sprintf("; %s a run after %s of warm-up", length, omit)
	}
	if len(p.Settings) > 1 && p.Search == nil {
		text += fmt.Sprintf("; blocks of %d settings in random order, seed %d", len(p.Settings), p.Seed)
	}
	return text + "."
}

// count states how often, and how it ended if not as planned.
func (b builder) count() string {
	n := len(report.Counted(b.s.Runs))
	text := fmt.Sprintf("Runs: %d of %d valid", n, len(b.s.Runs))
	switch {
	case len(b.s.Runs) == 0:
		text = "Nothing was measured"
	case len(b.s.Plan.Settings) < 2 && len(b.s.Plan.Tests) == 0 && n <= len(b.s.Plan.Directions):
		if n > 1 {
			text += ", one each way"
		}
		text += ": no interval, since a single run does not tell how much runs differ"
	}
	if b.d.State != model.SessionDone && len(b.s.Runs) > 0 {
		text += "; " + b.d.Ending
	}
	return text + "."
}

// ruledOut states what was examined and is not the reason.
func (b builder) ruledOut() string {
	var said []string
	for _, f := range b.d.Findings {
		said = lists.Once(said, f.RuledOut...)
	}
	if b.d.Check != nil {
		for _, l := range b.d.Check.Lines {
			if fmt.Sprint(l.State) == "ok" && l.Thing != "speed" && l.Thing != "reach" && !slices.Contains(said, l.Label) {
				said = append(said, l.Label)
			}
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "Looked at and ruled out: " + strings.Join(said, ", ") + "."
}

// todo states the advice, or what helps against the limit of each direction.
func (b builder) todo() string {
	if b.settled() {
		return "Advice: " + b.d.Advice + "."
	}
	var said []string
	for _, f := range b.d.Findings {
		if r := f.Remedies(); f.Main && len(r) > 0 && !slices.Contains(said, r[0]) {
			said = append(said, r[0])
		}
	}
	if len(said) == 0 {
		return ""
	}
	text := strings.Join(said, "; ") + "."
	return strings.ToUpper(text[:1]) + text[1:]
}

// settled reports whether the advice names the setting to use.
func (b builder) settled() bool {
	return b.d.Advice != "" && b.d.Untrustworthy == "" && !b.d.Open
}

// next returns the follow-up command, if pasting does not alter it.
func (b builder) next() string {
	lead, ok := b.d.Lead()
	if !ok || len(lead.Command) > 2*TicketWidth || clean(lead.Command) != lead.Command || strings.Contains(lead.Command+" ", ": ") {
		return ""
	}
	return "Next (" + lead.What + "): " + lead.Command
}

// guards names the guards that prevent keeping better settings.
func (b builder) guards() string {
	var said []string
	for _, t := range b.d.Tables {
		for _, r := range t.Rows {
			if t.Objective && len(r.Refused) > 0 {
				said = append(said, r.Setting+": "+strings.Join(r.Refused, ", "))
			}
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "Guards in the way of keeping it: " + strings.Join(said, "; ") + "."
}

func (b builder) doubts() string {
	if len(b.d.Warnings) == 0 {
		return ""
	}
	return "Warning: " + strings.Join(b.d.Warnings, "; ") + "."
}

func (b builder) again() string {
	return "All numbers: linerate show " + b.s.ID + "."
}

// TicketPicture returns the picture that shows most of the answer.
func TicketPicture(all []plot.Figure) (plot.Figure, bool) {
	for _, name := range []string{"effects", "gains", "mesh", "sizes", "latency", "rate", "settings", "path", "cores"} {
		for _, f := range all {
			if f.Name == name {
				return f, true
			}
		}
	}
	return plot.Figure{}, false
}
