// Package markdown renders the report of a session as Markdown (CommonMark with the
// tables of GFM), for wikis, merge requests and notes.
package markdown

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/report"
)

// Input is what a text is made of.
type Input struct {
	Session  model.Session
	Document report.Document
	Answer   []string // the answer, a sentence each; nil is report.Answer
}

// Render writes the report.
func Render(w io.Writer, in Input) error {
	d := in.Document
	answer := in.Answer
	if len(answer) == 0 {
		answer = report.Answer(d)
	}
	var b text
	b.line("# %s to %s, %s", escape(d.Header.Near), escape(d.Header.Far), d.Created.UTC().Format("2006-01-02 15:04 UTC"))
	for _, a := range answer {
		b.line("**%s**", escape(strings.TrimSuffix(a, ".")+"."))
	}
	if d.Untrustworthy != "" {
		b.line("**No verdict counts:** %s.", escape(d.Untrustworthy))
	}
	for _, m := range d.Measured {
		b.line("- %s: %s", escape(m.Label), escape(m.Text))
	}
	b.todo(d)
	b.check(d)
	b.lines(d)
	b.grid(d.Grid)
	for _, t := range d.Tables {
		b.verdicts(t)
	}
	if len(d.Plateaus) > 0 {
		b.line("## Which level is enough")
		for _, p := range d.Plateaus {
			b.line("%s.", escape(p.Text))
		}
	}
	b.findings(d)
	b.changes(d)
	b.list("Warnings", d.Warnings)
	if len(d.Next) > 0 {
		b.line("## Next")
		for _, n := range d.Next {
			b.line("%s:", escape(n.What))
			b.code(n.Command)
		}
	}
	b.facts(in.Session, d)
	b.line("## How it was measured")
	rows := [][]string{{"what", "how"}}
	for _, m := range report.Method(in.Session, d) {
		rows = append(rows, []string{m[0], m[1]})
	}
	b.table(rows)
	_, err := w.Write(append(bytes.TrimRight(b.b.Bytes(), "\n"), '\n'))
	return err
}

// text collects the paragraphs.
type text struct{ b bytes.Buffer }

// line writes a paragraph or a heading. Its arguments are escaped.
func (t *text) line(format string, args ...any) { fmt.Fprintf(&t.b, format+"\n\n", args...) }

// table writes a table, of which the first row is the heading.
func (t *text) table(rows [][]string) {
	for i, row := range rows {
		for _, c := range row {
			fmt.Fprintf(&t.b, "| %s ", escape(c))
		}
		t.b.WriteString("|\n")
		if i == 0 {
			t.b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	t.b.WriteString("\n")
}

func (t *text) list(heading string, items []string) {
	if len(items) == 0 {
		return
	}
	t.line("## %s", heading)
	for _, i := range items {
		fmt.Fprintf(&t.b, "- %s\n", escape(i))
	}
	t.b.WriteString("\n")
}

// code writes a block that nothing in it can end.
func (t *text) code(command string) {
	fence := "```"
	for strings.Contains(command, fence) {
		fence += "`"
	}
	fmt.Fprintf(&t.b, "%s\n%s\n%s\n\n", fence, plain.Text(command), fence)
}

// todo is what to do about it, with the command that does it.
func (t *text) todo(d report.Document) {
	var said []string
	if d.Advice != "" {
		said = append(said, d.Advice)
	}
	lead, leads := d.Lead()
	if leads {
		said = append(said, lead.What)
	}
	if len(said) == 0 {
		return
	}
	t.line("**What to do:** %s.", escape(strings.Join(said, "; ")))
	if leads {
		t.code(lead.Command)
	}
}

func (t *text) check(d report.Document) {
	if d.Check == nil {
		return
	}
	t.line("## What was looked at")
	rows := [][]string{{"thing", "state", "what was measured"}}
	for _, l := range d.Check.Lines {
		rows = append(rows, []string{l.Label, fmt.Sprint(l.State), strings.TrimSpace(l.Number + " " + l.Text)})
	}
	t.table(rows)
}

func (t *text) lines(d report.Document) {
	if len(d.Lines) == 0 {
		return
	}
	t.line("## What it carried")
	rows := [][]string{{"direction", "goodput", "of what the path can carry", "runs", "sent again"}}
	for _, l := range report.LineRows(d) {
		rows = append(rows, []string{l.Label, l.Goodput, l.Ceiling, l.Runs, l.Again})
	}
	t.table(rows)
}

func (t *text) verdicts(v report.Table) {
	t.line("## %s", escape(v.Title))
	t.line("Intervals of %s, %s; a change below %s makes no difference.", report.Percent(v.Confidence), escape(v.Basis), v.Margin)
	rows := [][]string{{"setting", "change", "interval", "blocks", "verdict"}}
	for _, r := range v.Rows {
		words := r.Words
		if r.Note != "" {
			words += "; " + r.Note
		}
		rows = append(rows, []string{r.Setting, r.ChangeText, r.RangeText, fmt.Sprint(r.Blocks), words})
	}
	t.table(rows)
}

// grid writes what is combined, and what every combination of two came to.
func (t *text) grid(g *report.Grid) {
	if g == nil {
		return
	}
	var texts []string
	for _, f := range g.Factors {
		texts = append(texts, f.Text)
	}
	t.list("What is combined", texts)
	for _, one := range g.Tables {
		t.line("## %s", escape(one.Title))
		rows := [][]string{append([]string{""}, one.Columns...)}
		for _, r := range one.Rows {
			row := []string{r.Name}
			for _, c := range r.Cells {
				row = append(row, c.Text)
			}
			rows = append(rows, row)
		}
		t.table(rows)
	}
}

func (t *text) findings(d report.Document) {
	var items []string
	for _, f := range d.Findings {
		item := strings.Join(append([]string{f.Text}, f.Remedies()...), "; ")
		items = append(items, item+" ("+f.Rule+")")
	}
	t.list("What limits it", items)
}

func (t *text) changes(d report.Document) {
	var items []string
	for _, c := range d.Changes {
		items = append(items, c.Text+": "+plain.Join(c.Knobs, ", "))
		items = append(items, c.Open...)
	}
	t.list("What was changed and put back", items)
}

func (t *text) facts(s model.Session, d report.Document) {
	rows := [][]string{{"", d.Header.Near, d.Header.Far}}
	for _, r := range report.BothEnds(s) {
		rows = append(rows, []string{r.Name, r.Near, r.Far})
	}
	if len(rows) == 1 {
		return
	}
	t.line("## Both ends")
	t.table(rows)
}

// escape is text of which nothing is markup: a backslash stands before what CommonMark
// would read (section 2.4 of its specification, 0.31.2), and an empty comment within
// what code hosts would make a mention of a person or a link to an issue.
func escape(text string) string {
	var b strings.Builder
	runes := []rune(plain.Line(text))
	word := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]))
	}
	for i, r := range runes {
		within := word(i-1) && word(i+1) // where an underscore is one
		if strings.ContainsRune("\\`*{}[]<>|~^$#&!", r) || r == '_' && !within {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
		if (r == '@' || r == '#') && !word(i-1) && word(i+1) {
			b.WriteString("<!-- -->")
		}
	}
	return first.ReplaceAllString(b.String(), `$1\$2`)
}

// first is what begins a list or a heading where it begins a paragraph or an item.
var first = regexp.MustCompile(`^([0-9]*)([-+.)=]+(?: |$))`)
