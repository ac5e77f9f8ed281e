package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"linerate/internal/app/inspect"
	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/report/format"
	"linerate/internal/report/term"
)

// knobsDoc is linerate/knobs/v1.
type knobsDoc struct {
	Host      string            `json:"host"`
	Interface string            `json:"interface,omitempty"` // that the link settings belong to
	Knobs     []inspect.Setting `json:"knobs"`
}

// printKnobs prints a host's settings, by theme. A terminal gets the columns that fit; a pipe
// gets everything.
func (a *console) printKnobs(h inspect.Host, rows []inspect.Setting) error {
	if a.json {
		return a.document(format.KnobsSchema, knobsDoc{h.Name, h.Link, rows})
	}
	p := a.page()
	knobsPage(p, h, rows)
	return p.Print(a.Out)
}

// knobsPage writes the settings rows of h.
func knobsPage(p term.Page, h inspect.Host, rows []inspect.Setting) {
	p.Text("settings of %s", h.Name)
	switch hasLink := slices.ContainsFunc(rows, func(r inspect.Setting) bool { return r.Scope == knob.ScopeLink || r.Scope == knob.ScopeRoute }); {
	case !hasLink:
	case h.Link == "":
		p.Text("no way out of this host is known: --interface NAME shows a link's settings")
	default:
		p.Text("link and route: %s (--interface NAME for another one)", h.Link)
	}
	narrow := false
	var unknown []inspect.Setting
	for _, theme := range knob.Themes() {
		t := knobTable{title: theme.Name, header: []string{"setting", "value", "system's default", "range", "native", "kept", "set by"}}
		for _, r := range rows {
			v, known := r.Value.Get()
			switch {
			case r.Theme != theme.Name || r.Scope == knob.ScopeFlow:
			case !known:
				unknown = append(unknown, r)
			default:
				t.rows = append(t.rows, []string{string(r.Knob), r.Of.Format(v), r.Default, rangeText(r), r.Native, keptText(r), setByText(r, v)})
			}
		}
		narrow = t.write(p) || narrow
	}
	flow := knobTable{title: "settings of the test flow, no host is changed", header: []string{"setting", "meaning"}}
	for _, r := range rows {
		if r.Scope == knob.ScopeFlow {
			flow.rows = append(flow.rows, []string{string(r.Knob), r.Summary})
		}
	}
	flow.write(p)
	unknownKnobs(p, unknown)
	if narrow {
		p.Title("left out for want of width: linerate knobs explain NAME shows all of a setting")
	}
}

// knobTable is the settings of one theme.
type knobTable struct {
	title  string
	header []string
	rows   [][]string
}

// write writes t unless it is empty, and reports whether it left out columns for lack of width.
// The file that sets a setting is the first to move to a line of its own.
func (t knobTable) write(p term.Page) (narrow bool) {
	if len(t.rows) == 0 {
		return false
	}
	var shown []int
	for i := range t.header {
		if slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "" }) {
			shown = append(shown, i)
		}
	}
	of := func(row []string) (out []string) {
		for _, i := range shown {
			out = append(out, row[i])
		}
		return out
	}
	all := func() (out [][]string) {
		for _, row := range t.rows {
			out = append(out, of(row))
		}
		return out
	}
	fits := func() bool { return p.Fits(of(t.header), all()) }
	var below func(int) string
	if last := shown[len(shown)-1]; t.header[last] == "set by" && !fits() {
		shown = shown[:len(shown)-1]
		below = func(row int) string { return strings.TrimSuffix("set by "+t.rows[row][last], "set by ") }
	}
	for _, name := range []string{"range", "system's default", "native"} {
		if !fits() && len(t.header) > 2 {
			shown = slices.DeleteFunc(slices.Clone(shown), func(i int) bool { return t.header[i] == name })
			narrow = true
		}
	}
	p.Title("%s", t.title)
	p.Table(of(t.header), all(), below)
	return narrow
}

// unknownWidth is the longest line that names a reason's settings besides their number.
const unknownWidth = 80

// unknownKnobs writes how many settings have an unknown value, one line per reason.
func unknownKnobs(p term.Page, rows []inspect.Setting) {
	if len(rows) == 0 {
		return
	}
	words := map[knob.Reason]string{}
	for _, r := range knob.Reasons() {
		words[r.Reason] = r.Words
	}
	var reasons []string
	names := map[string][]string{}
	for _, r := range rows {
		why := r.Value.Reason()
		if known := knob.ReasonOf(r.Value); known != knob.OtherReason {
			why = words[known]
		}
		if names[why] == nil {
			reasons = append(reasons, why)
		}
		names[why] = append(names[why], string(r.Knob))
	}
	p.Title("not known (linerate knobs --json says why for each)")
	for _, why := range reasons {
		line := fmt.Sprintf("  %d: %s", len(names[why]), why)
		if named := line + ": " + strings.Join(names[why], ", "); utf8.RuneCountInString(named) <= unknownWidth {
			line = named
		}
		p.Line(line)
	}
}

// rangeText formats the range for a table.
func rangeText(r inspect.Setting) string {
	k := r.Of
	switch {
	case r.ReadOnly:
		return "read-only"
	case k.Type == knob.TypeName:
		return "a name"
	case k.Type == knob.TypeWords:
		return "words"
	case k.Type != knob.TypeEnum:
		return r.Range
	}
	values := lists.Each(k.Choices, func(c knob.Choice) string { return c.Value })
	return strings.Join(values, ", ")
}

// keptText returns the state of a kept setting.
func keptText(r inspect.Setting) string {
	if r.Kept == nil {
		return ""
	}
	return r.Kept.Text
}

// setByText returns the file that sets a knob, and notes if the current value differs.
func setByText(r inspect.Setting, now string) string {
	if r.SetBy == nil {
		return ""
	}
	s := fmt.Sprintf("%s:%d", r.SetBy.File, r.SetBy.Line)
	if r.SetBy.Value != now {
		s += " says " + r.Of.Format(r.SetBy.Value)
	}
	return s
}
