// Package html renders the report of a session as one self-contained page: no network, no
// script, no font. It can be mailed, printed and read on a phone, in light and dark mode.
package html

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
	"linerate/internal/regex"
	"linerate/internal/report"
	"linerate/internal/report/figures"
	"linerate/internal/report/plot"
)

// Input is the content of a page.
type Input struct {
	Session  model.Session
	Document report.Document
	Samples  model.Samples
	Beside   []figures.Swept // other sessions whose curves over message sizes are drawn beside this one's
	Answer   []string        // the answer, a sentence each; nil is report.Answer
	Text     string          // the report as in a terminal of 80 columns, for pasting
	Attached []File          // the data of the session, for further use
}

// File is a file embedded in a page.
type File struct {
	Name, Kind string // Kind is its media type
	What       string // description: "all data of this session, as JSON"
	Content    []byte
}

//go:embed page.tmpl
var pageText string

// Render writes the page.
func Render(w io.Writer, in Input) error {
	t, err := template.New("page").Funcs(template.FuncMap{"capital": sentence, "whole": whole, "percent": report.Percent, "verdict": verdictClass, "said": said, "tone": toneClass, "heading": isHeading}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("page of a session: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, newPage(in)); err != nil {
		return fmt.Errorf("page of session %s: %w", in.Session.ID, err)
	}
	_, err = io.WriteString(w, plain.Text(b.String())) // terminal control sequences do not belong in a page either
	return err
}

// page is the template's input.
type page struct {
	Title    string
	When     string
	Style    template.CSS
	Headline []string // the answer, a sentence for each direction
	Doubt    string
	D        report.Document
	Lead     *report.Step // the follow-up command
	Lines    []report.LineRow
	Waits    []waitRow
	Beside   []besideRow // proven changes of other metrics
	Rest     []besideRow // the other metrics
	Section  *traffic.Section
	Opening  *figure // for an experiment: the result of each setting; for a search: before and after
	Figures  []figure
	Near     string
	Far      string
	Facts    []report.FactRow
	Method   [][2]string
	Text     string
	Attached []attached
}

// attached is a file as a link that contains it.
type attached struct {
	Name, What, Size string
	Data             template.URL
}

// figure is a picture in both widths.
type figure struct {
	Name         string
	Wide, Narrow template.HTML
}

func newPage(in Input) page {
	d := in.Document
	p := page{
		Title: d.Between(), When: report.When(in.Session), Style: template.CSS(plot.Style()), //nolint:gosec // the style is a constant of ours
		Headline: in.Answer, Doubt: d.Untrustworthy, D: d, Near: d.Header.Near, Far: d.Header.Far,
		Lines: report.LineRows(d), Waits: waits(d), Section: d.Section, Facts: report.BothEnds(in.Session), Method: report.Method(in.Session, d), Text: in.Text,
	}
	p.Beside, p.Rest = beside(d)
	if lead, ok := d.Lead(); ok {
		p.Lead = &lead
	}
	if n := len(in.Beside); n > 0 {
		p.Headline = []string{fmt.Sprintf("%d sweeps in one picture; what follows it is of the first", n+1)}
	}
	if len(p.Headline) == 0 {
		p.Headline = report.Answer(d)
	}
	p.Headline = slices.Clone(p.Headline)
	for i := range p.Headline {
		if d.Kind != model.KindMesh { // its sentences start with the name of a host
			p.Headline[i] = sentence(p.Headline[i])
		}
	}
	for _, f := range figures.With(in.Session, d, in.Samples, in.Beside) {
		//nolint:gosec // every text in a picture is escaped by package plot
		one := figure{f.Name, template.HTML(f.Inline(plot.Wide)), template.HTML(f.Inline(plot.Narrow))}
		if p.Opening == nil && (f.Name == "gains" || f.Name == "sizes" && len(in.Beside) > 0 || len(d.Tables) > 0 && (f.Name == "grid" || f.Name == "settings" && d.Grid == nil)) {
			p.Opening = &one
			continue
		}
		p.Figures = append(p.Figures, one)
	}
	for _, f := range in.Attached {
		data := template.URL("data:" + f.Kind + ";base64," + base64.StdEncoding.EncodeToString(f.Content)) //nolint:gosec // base64 holds no quotes
		p.Attached = append(p.Attached, attached{f.Name, sentence(f.What), units.Bytes(len(f.Content)).Binary(), data})
	}
	return p
}

// beforeUnit matches a number and the blank before its unit.
var beforeUnit = regex.New(`([0-9]) (%|[kMGT]?(?:bit/s|B|iB)\b|[nµm]?s\b|min\b)`)

// whole prevents a line break between a number and its unit.
func whole(text string) string { return beforeUnit.ReplaceAllString(text, "$1\u00a0$2") }

// sentence starts text with a capital letter, unless the first word is the name of a setting.
func sentence(text string) string {
	if word, _, _ := strings.Cut(text, " "); strings.ContainsAny(strings.TrimRight(word, ".:,"), "=.") {
		return text
	}
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}
