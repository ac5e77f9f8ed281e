package format

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"unicode"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
	"linerate/internal/regex"
	"linerate/internal/report"
)

// MarkdownInput is the content of a text.
type MarkdownInput struct {
	Session  model.Session
	Document report.Document
	Answer   []string // the answer, a sentence each; nil is report.Answer
}

//go:embed markdown.tmpl
var pageText string

// markdownPage is the template's input. Everything that the template writes goes through esc.
type markdownPage struct {
	D        report.Document
	When     string
	Answer   []string
	Todo     string       // the advice
	Lead     *report.Step // the command for it
	Lines    []report.LineRow
	Findings []string
	Facts    []report.FactRow
	Method   [][2]string
}

// Markdown renders the report of a session as Markdown (CommonMark with the
// tables of GFM), for wikis, merge requests and notes.
//
// It writes the report.
func Markdown(w io.Writer, in MarkdownInput) error {
	d := in.Document
	p := markdownPage{D: d, When: report.When(in.Session), Answer: in.Answer, Todo: d.Advice, Lines: report.LineRows(d), Facts: report.BothEnds(in.Session), Method: report.Method(in.Session, d)}
	if len(p.Answer) == 0 {
		p.Answer = report.Answer(d)
	}
	p.Answer = slices.Clone(p.Answer)
	for i, a := range p.Answer {
		p.Answer[i] = strings.TrimSuffix(a, ".") + "."
	}
	if lead, leads := d.Lead(); leads {
		p.Todo, p.Lead = strings.TrimPrefix(d.Advice+"; "+lead.What, "; "), &lead
	}
	for _, f := range d.Findings {
		p.Findings = append(p.Findings, strings.Join(append([]string{f.Text}, f.Remedies()...), "; ")+" ("+f.Rule+")")
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"esc": escapeMarkdown, "code": code, "percent": report.Percent, "heading": func(t traffic.Tone) bool { return t == traffic.Heading },
		"knobs": func(all []model.KnobID) string { return plain.Join(all, ", ") },
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("text of a session: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return fmt.Errorf("text of session %s: %w", in.Session.ID, err)
	}
	_, err = w.Write(append(bytes.TrimRight(b.Bytes(), "\n"), '\n'))
	return err
}

// code returns a fenced code block whose fence does not occur inside.
func code(command string) string {
	fence := "```"
	for strings.Contains(command, fence) {
		fence += "`"
	}
	return fence + "\n" + plain.Text(command) + "\n" + fence
}

// escapeMarkdown returns text without markup: with a backslash before characters that CommonMark
// interprets (section 2.4 of its specification, 0.31.2), and an empty comment inside text that
// code hosts would turn into a mention of a user or a link to an issue.
func escapeMarkdown(parts ...any) string {
	text := strings.Builder{}
	for _, p := range parts {
		fmt.Fprint(&text, p)
	}
	var b strings.Builder
	runes := []rune(plain.Line(strings.TrimSpace(text.String())))
	word := func(i int) bool {
		return i >= 0 && i < len(runes) && (unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i]))
	}
	for i, r := range runes {
		within := word(i-1) && word(i+1) // where an underscore belongs to the word
		if strings.ContainsRune("\\`*{}[]<>|~^$#&!", r) || r == '_' && !within {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
		if (r == '@' || r == '#') && !word(i-1) && word(i+1) {
			b.WriteString("<!-- -->")
		}
	}
	return firstMarkdown.ReplaceAllString(b.String(), `$1\$2`)
}

// firstMarkdown matches what begins a list or a heading at the start of a paragraph or an item.
var firstMarkdown = regex.New(`^([0-9]*)([-+.)=]+(?: |$))`)
