// Package term renders reports as plain text for a terminal: aligned, within its width, with
// colour only if the caller enables it.
package term

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/report"
)

// DefaultWidth is the width of a terminal that does not report its own.
const DefaultWidth = 80

// Options describe the reader's terminal. The zero value is plain Unicode text of 80 columns;
// package screen converts it to ASCII for terminals that show no more.
type Options struct {
	Width int  // columns; 0 is DefaultWidth, and less than 40 counts as 40
	Color bool // escape sequences are allowed: a terminal, and no NO_COLOR (no-color.org)
	Why   bool // in a check: the evidence of each line
	// Details adds the statistics: the basis of the verdicts, intervals, evidence, noise, and
	// the tables over runs and intervals.
	Details bool
	Zone    *time.Location // time zone of displayed times; nil is UTC
	// OneLine keeps commands in one line, for shells that do not support a backslash at the end
	// of a line.
	OneLine bool
}

// Render writes d to w. It writes nothing but printable text and, with Color, its own escape
// sequences, whatever d contains: names in it may come from a foreign host.
func Render(w io.Writer, d report.Document, o Options) error {
	p := newPrinter(o)
	p.header(d)
	if d.Check != nil {
		p.check(d, o.Why)
		return p.flush(w)
	}
	switch {
	case d.Section != nil && d.Section.Whole:
		p.section(d.Section.Blocks)
	default:
		p.body(d)
	}
	p.changes(d.Changes)
	for _, text := range d.Warnings {
		p.paragraph(yellow, "warning: "+text, 2)
	}
	p.gap()
	p.ending(d)
	return p.flush(w)
}

// body prints the results of a session of streams or datagrams.
func (p *printer) body(d report.Document) {
	if d.Section == nil || d.Section.Beside {
		p.lines(d)
		p.latencies(d)
	}
	if d.Section != nil {
		p.section(d.Section.Blocks)
	}
	for _, text := range d.Own {
		p.paragraph(normal, text, 2)
	}
	if d.Search != nil {
		text := d.Search.Said
		if p.details {
			text = d.Search.Text
		}
		p.paragraph(normal, text, 2)
	}
	for _, f := range d.Findings {
		if !closing(d, f) {
			p.finding(f)
		}
	}
	p.gap()
	if d.Untrustworthy != "" {
		p.paragraph(red, "untrustworthy: "+d.Untrustworthy, 2)
		p.gap()
	}
	if d.Grid != nil {
		for _, f := range d.Grid.Factors {
			p.paragraph(normal, f.Text, 2)
		}
		p.gap()
		for _, t := range d.Grid.Tables {
			p.gridTable(t)
		}
	}
	for _, t := range d.Tables {
		if t.Objective {
			p.verdicts(t, d.Measured)
		}
	}
	if d.Grid != nil && len(d.Grid.Effects) > 0 {
		p.paragraph(bold, "what each setting does, in the mean over the others", 2)
		for _, e := range d.Grid.Effects {
			text := e.Said
			if p.details {
				text = e.Text
			}
			p.paragraph(normal, text, 2)
		}
		p.gap()
	}
	p.others(d.Tables)
	for _, n := range d.Noise {
		if p.details {
			p.paragraph(dim, n.Text, 2)
		} else if n.Said != "" {
			p.paragraph(normal, n.Said, 2)
		}
	}
	for _, l := range d.Plateaus {
		if p.details || !l.Advised {
			p.paragraph(normal, l.Text, 2)
		}
	}
	if d.Grid != nil && d.Grid.Conclusion != "" {
		p.gap()
		p.paragraph(bold, d.Grid.Conclusion, 2)
	}
	p.gap()
	if p.details || d.Kind == model.KindImported { // an import has nothing else to show
		p.classic(d)
	}
}

func (p *printer) header(d report.Document) {
	h := d.Header
	if d.Kind == model.KindMesh {
		p.paragraph(bold, strings.TrimPrefix(d.Title+": ", ": ")+d.Between(), 0)
		p.gap()
		return
	}
	ends := clean(h.Near) + " -> " + clean(h.Far)
	if d.Title != "" && clean(d.Title) != ends {
		p.paragraph(bold, d.Title, 0)
	}
	path := []string{}
	if v, ok := h.Link.Get(); ok {
		path = append(path, v.String())
	} else {
		path = append(path, "link rate unknown")
	}
	path = append(path, mtus(h))
	if v, ok := h.RTT.Get(); ok {
		path = append(path, "RTT "+units.FormatDuration(v))
	}
	carries := ""
	if v, ok := h.Ceiling.Get(); ok {
		carries = fmt.Sprintf("the link can carry %s of payload", v)
		if parts := byDirection(d.Lines); len(parts) > 1 {
			carries = "the link can carry as payload " + strings.Join(parts, ", ")
		}
	} else if h.Link.IsKnown() {
		carries = "what the link can carry is unknown: " + h.Ceiling.Reason()
	}
	indent := len([]rune(ends)) + 3
	if indent > p.width/3 {
		p.paragraph(bold, ends, 0)
		p.paragraph(normal, strings.Join(path, ", "), 2)
		indent = 2
	} else {
		p.hanging(p.paint(bold, ends)+"   ", indent, strings.Join(path, ", "))
	}
	if carries != "" {
		p.paragraph(dim, carries, indent)
	}
	if text := algorithms(d); text != "" {
		p.paragraph(dim, text, indent)
	}
	if d.Header.DataPath != "" {
		p.paragraph(dim, "data connections: "+clean(d.Header.DataPath), indent)
	}
	for _, e := range d.FarEnds {
		p.hanging("  far end ", 10, e.Text)
	}
	p.gap()
}

// byDirection returns what the path can carry in each direction, if that differs.
func byDirection(lines []report.Line) []string {
	var parts []string
	for _, l := range lines {
		if v, ok := l.Ceiling.Get(); ok {
			parts = append(parts, fmt.Sprintf("%s %s", v, clean(l.Label)))
		}
	}
	if len(parts) == 2 && lines[0].Ceiling.Or(0) == lines[1].Ceiling.Or(0) {
		return nil
	}
	return parts
}

// algorithms names what affects a rate besides the link, and may silently differ between hosts:
// congestion control and egress scheduler.
func algorithms(d report.Document) string {
	var parts, names, labelled []string
	for _, l := range d.Lines {
		if name, ok := l.Congestion.Get(); ok {
			names = append(names, clean(name))
			labelled = append(labelled, clean(name)+" "+clean(l.Label))
		}
	}
	switch same := slices.Compact(names); {
	case len(same) == 1:
		parts = append(parts, "congestion control "+same[0])
	case len(same) > 1:
		parts = append(parts, "congestion control "+strings.Join(labelled, ", "))
	}
	near, nearKnown := d.Header.NearQdisc.Get()
	far, farKnown := d.Header.FarQdisc.Get()
	switch {
	case nearKnown && farKnown && near == far:
		parts = append(parts, "qdisc "+clean(near)+" both ends")
	case nearKnown && farKnown:
		parts = append(parts, "qdisc "+clean(near)+" "+clean(d.Header.Near)+", "+clean(far)+" "+clean(d.Header.Far))
	case nearKnown:
		parts = append(parts, "qdisc "+clean(near)+" "+clean(d.Header.Near))
	case farKnown:
		parts = append(parts, "qdisc "+clean(far)+" "+clean(d.Header.Far))
	}
	return strings.Join(parts, "; ")
}

// mtus describes the MTUs of the two ends.
func mtus(h report.Header) string {
	a, aKnown := h.NearMTU.Get()
	b, bKnown := h.FarMTU.Get()
	switch {
	case !aKnown && !bKnown:
		return "MTU unknown"
	case aKnown && bKnown && a == b:
		return fmt.Sprintf("MTU %d both ends", a)
	}
	show := func(v int, known bool) string {
		if !known {
			return "unknown"
		}
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("MTU %s %s, %s %s", show(a, aKnown), clean(h.Near), show(b, bKnown), clean(h.Far))
}

func (p *printer) lines(d report.Document) {
	var rows [][]cell
	var loaded []string
	for _, l := range d.Lines {
		share, retransmits := "", "retransmits unknown"
		if v, ok := l.Share.Get(); ok {
			share = report.OfCeiling(v, units.FormatShare) + " of link"
		}
		if v, ok := l.Retransmits.Get(); ok {
			retransmits = plain.Count(v, "retransmit")
		}
		label := l.Label
		if d.Kind == model.KindRun && l.Setting != "" {
			label += " (" + l.Setting + ")"
		}
		if l.Datagrams != nil {
			retransmits = report.FormatLoss(l.Datagrams.Loss) + " lost"
		}
		row := []cell{p.name(label), right(l.Goodput.String()), right(share), right(retransmits), left("CPU " + cpu(l.NearCPU) + " / " + cpu(l.FarCPU))}
		rows = append(rows, row)
		if v, ok := l.LoadedRTT.Get(); ok {
			loaded = append(loaded, units.FormatDuration(v)+" "+clean(l.Label))
		}
	}
	p.grid(rows, nil)
	for _, l := range d.Lines {
		p.datagrams(l)
	}
	if rtt, ok := d.Header.RTT.Get(); ok && len(loaded) > 0 && len(d.Latencies) == 0 {
		p.paragraph(normal, "latency "+units.FormatDuration(rtt)+" at best; the flow's own: "+strings.Join(loaded, ", "), 2)
	}
	if len(rows) > 0 {
		p.gap()
	}
}

func cpu(v fact.Of[float64]) string {
	if share, ok := v.Get(); ok {
		return fmt.Sprintf("%.0f %%", 100*share)
	}
	return "unknown"
}

// closing reports whether a finding is one of the sentences at the end of d: for a test, the
// first of each direction.
func closing(d report.Document, f report.Finding) bool { return d.Kind == model.KindTest && f.Main }

func (p *printer) finding(f report.Finding) {
	p.paragraph(normal, f.Text, 2)
	for _, text := range f.Remedies() {
		p.paragraph(dim, text, 4)
	}
}

func (p *printer) changes(all []report.Changes) {
	for _, c := range all {
		p.paragraph(normal, c.Text, 2)
		for _, open := range c.Open {
			p.paragraph(yellow, open, 4)
		}
	}
	if len(all) > 0 {
		p.gap()
	}
}

func (p *printer) ending(d report.Document) {
	if d.Note != "" {
		p.paragraph(normal, "note: "+d.Note, 2)
	}
	if d.State != model.SessionDone || d.Kind == model.KindRun {
		p.paragraph(normal, d.Ending, 2)
	}
	for _, f := range d.Findings {
		if closing(d, f) {
			p.finding(f)
		}
	}
	if d.Advice != "" {
		p.paragraph(bold, d.Advice, 2)
	}
	next := d.Next
	if last := len(next) - 1; last > 0 { // the follow-up commands go to the end, where they are seen
		next = append([]report.Step{next[last]}, next[:last]...)
	}
	for _, n := range next {
		p.command(n)
	}
}

// command prints a step. It breaks a long command in a way that shells accept, so that a copy
// of it works; its words stay whole.
func (p *printer) command(n report.Step) {
	text := clean(n.What) + ": " + clean(n.Command)
	if columns(text)+2 <= p.width {
		p.line("  " + p.paint(dim, text))
		return
	}
	p.paragraph(dim, n.What+":", 2)
	words := []string{clean(n.Command)}
	if !p.oneLine {
		words = shellWords(words[0], p.width-8)
	}
	lines := join(words, p.width-6, p.width-8)
	for i, l := range lines {
		if i < len(lines)-1 {
			l += ` \`
		}
		p.line(strings.Repeat(" ", 4+2*min(i, 1)) + p.paint(dim, l))
	}
}
