package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"linerate/internal/app/inspect"
	"linerate/internal/core/knob"
	reportjson "linerate/internal/report/json"
)

// knobsDoc is linerate/knobs/v1.
type knobsDoc struct {
	Host      string            `json:"host"`
	Interface string            `json:"interface,omitempty"` // whose settings of a link they are
	Knobs     []inspect.Setting `json:"knobs"`
}

// printKnobs prints the settings of a host, by theme. What does not fit a terminal's
// width is left out; a pipe gets everything.
func (a *console) printKnobs(h inspect.Host, rows []inspect.Setting) error {
	if a.json {
		return a.document(reportjson.KnobsSchema, knobsDoc{h.Name, h.Link, rows})
	}
	width := 0
	if a.OutTerminal {
		width = a.Width()
	}
	_, err := io.WriteString(a.Out, knobsText(h, rows, width))
	return err
}

// knobsText is the page of the settings rows of h, in lines of at most width columns
// where that can be; 0 is any width.
func knobsText(h inspect.Host, rows []inspect.Setting, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "settings of %s\n", h.Name)
	switch hasLink := slices.ContainsFunc(rows, func(r inspect.Setting) bool { return r.Scope == knob.ScopeLink || r.Scope == knob.ScopeRoute }); {
	case !hasLink:
	case h.Link == "":
		fmt.Fprintln(&b, "no way out of this host is known: --interface NAME shows a link's settings")
	default:
		fmt.Fprintf(&b, "link and route: %s (--interface NAME for another one)\n", h.Link)
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
		narrow = t.write(&b, width) || narrow
	}
	flow := knobTable{title: "settings of the test flow, no host is changed", header: []string{"setting", "meaning"}}
	for _, r := range rows {
		if r.Scope == knob.ScopeFlow {
			flow.rows = append(flow.rows, []string{string(r.Knob), r.Summary})
		}
	}
	flow.write(&b, 0)
	b.WriteString(unknownKnobs(unknown))
	if narrow {
		b.WriteString("\nleft out for want of width: linerate knobs explain NAME tells all of a setting\n")
	}
	return b.String()
}

// knobTable is the settings of one theme.
type knobTable struct {
	title  string
	header []string
	rows   [][]string
}

// write writes t unless it is empty, and reports whether columns were left out
// because it is too wide: the file that sets a setting goes to a line of its own
// first.
func (t knobTable) write(b *strings.Builder, width int) (narrow bool) {
	if len(t.rows) == 0 {
		return false
	}
	fmt.Fprintf(b, "\n%s\n", t.title)
	var shown []int
	for i := range t.header {
		if slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "" }) {
			shown = append(shown, i)
		}
	}
	below := -1 // the column that has lines of its own
	if last := shown[len(shown)-1]; t.header[last] == "set by" && width > 0 && t.width(shown) > width {
		below, shown = last, shown[:len(shown)-1]
	}
	for _, name := range []string{"range", "system's default", "native"} {
		if width > 0 && t.width(shown) > width {
			shown = slices.DeleteFunc(slices.Clone(shown), func(i int) bool { return t.header[i] == name })
			narrow = true
		}
	}
	widths := t.widths(shown)
	for _, row := range append([][]string{t.header}, t.rows...) {
		var line strings.Builder
		line.WriteString(" ")
		for at, i := range shown {
			line.WriteString(" " + row[i] + strings.Repeat(" ", widths[at]-utf8.RuneCountInString(row[i])+1))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		if below >= 0 && row[below] != "" && row[below] != t.header[below] {
			fmt.Fprintf(b, "    set by %s\n", row[below])
		}
	}
	return narrow
}

func (t knobTable) widths(columns []int) []int {
	widths := make([]int, len(columns))
	for at, i := range columns {
		for _, row := range append([][]string{t.header}, t.rows...) {
			widths[at] = max(widths[at], utf8.RuneCountInString(row[i]))
		}
	}
	return widths
}

// width is how wide the longest line is.
func (t knobTable) width(columns []int) int {
	sum := 0
	for _, w := range t.widths(columns) {
		sum += w + 2
	}
	return sum
}

// unknownWidth is the longest line that names the settings of a reason beside their
// number.
const unknownWidth = 80

// unknownKnobs says of how many settings the value is not known, a line for each
// reason.
func unknownKnobs(rows []inspect.Setting) string {
	if len(rows) == 0 {
		return ""
	}
	words := map[knob.Reason]string{}
	for _, r := range knob.Reasons() {
		words[r.Reason] = r.Words
	}
	var reasons []string
	names := map[string][]string{}
	for _, r := range rows {
		why := r.Value.Reason()
		if known := knob.ReasonOf(why); known != knob.OtherReason {
			why = words[known]
		}
		if names[why] == nil {
			reasons = append(reasons, why)
		}
		names[why] = append(names[why], string(r.Knob))
	}
	var b strings.Builder
	b.WriteString("\nnot known (linerate knobs --json says why for each)\n")
	for _, why := range reasons {
		line := fmt.Sprintf("  %d: %s", len(names[why]), why)
		if named := line + ": " + strings.Join(names[why], ", "); utf8.RuneCountInString(named) <= unknownWidth {
			line = named
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// rangeText is the range for a table: short.
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
	var values []string
	for _, c := range k.Choices {
		values = append(values, c.Value)
	}
	return strings.Join(values, ", ")
}

// keptText says how a setting that is kept stands.
func keptText(r inspect.Setting) string {
	if r.Kept == nil {
		return ""
	}
	return r.Kept.Text
}

// setByText says which file sets a knob, and where that is not what it holds.
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
