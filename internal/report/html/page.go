// Package html renders the report of a session as one page that needs nothing but
// itself: no network, no script, no font. It can be mailed, printed and read on a
// phone, on light and on dark ground.
package html

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/report"
	"linerate/internal/report/figures"
	"linerate/internal/report/plot"
)

// Input is what a page is made of.
type Input struct {
	Session  model.Session
	Document report.Document
	Samples  map[int][]model.Sample
	Answer   []string // the answer, a sentence each; nil is report.Answer
	Text     string   // the report as a terminal shows it, 80 columns, for those who paste it
	JSON     []byte   // the whole session as a document; empty attaches none
}

//go:embed page.tmpl
var pageText string

// Render writes the page.
func Render(w io.Writer, in Input) error {
	t, err := template.New("page").Funcs(template.FuncMap{"capital": sentence, "whole": whole, "percent": percent}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("page of a session: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, newPage(in)); err != nil {
		return fmt.Errorf("page of session %s: %w", in.Session.ID, err)
	}
	_, err = io.WriteString(w, plain.Text(b.String())) // what a terminal would obey has no place in a page either
	return err
}

// page is what the template reads.
type page struct {
	Title    string
	Style    template.CSS
	Headline []string // the answer, a sentence for each direction
	Doubt    string
	D        report.Document
	Lines    []lineRow
	Figures  []figure
	Near     string
	Far      string
	Facts    []factRow
	Method   [][2]string
	Text     string
	Data     template.URL
	DataName string
	DataSize string
}

// lineRow is what one direction carried.
type lineRow struct{ Label, Goodput, Ceiling, Runs, Again string }

func lines(d report.Document) []lineRow {
	var out []lineRow
	for _, l := range d.Lines {
		r := lineRow{l.Label, l.Goodput.String(), text(l.Ceiling), fmt.Sprint(l.Runs), text(l.Retransmits)}
		if share, ok := l.Share.Get(); ok {
			r.Ceiling = fmt.Sprintf("%s of %s", units.Percent(math.Round(1000*share)/10), r.Ceiling)
		}
		out = append(out, r)
	}
	return out
}

// figure is a picture in both widths.
type figure struct {
	Name         string
	Wide, Narrow template.HTML
}

// factRow is one fact of both ends.
type factRow struct {
	Name, Near, Far string
	Differs         bool
}

func newPage(in Input) page {
	d := in.Document
	p := page{
		Title: d.Header.Near + " to " + d.Header.Far, Style: template.CSS(plot.Style()), //nolint:gosec // the style is a constant of ours
		Headline: in.Answer, Doubt: d.Untrustworthy, D: d, Near: d.Header.Near, Far: d.Header.Far,
		Lines: lines(d), Facts: facts(in.Session), Method: report.Method(in.Session, d), Text: in.Text,
	}
	if len(p.Headline) == 0 {
		p.Headline = report.Answer(d)
	}
	p.Headline = slices.Clone(p.Headline)
	for i := range p.Headline {
		p.Headline[i] = sentence(p.Headline[i])
	}
	for _, f := range figures.Of(in.Session, d, in.Samples) {
		//nolint:gosec // every text in a picture is escaped by package plot
		p.Figures = append(p.Figures, figure{f.Name, template.HTML(f.Inline(plot.Wide)), template.HTML(f.Inline(plot.Narrow))})
	}
	if len(in.JSON) > 0 {
		p.Data = template.URL("data:application/json;base64," + base64.StdEncoding.EncodeToString(in.JSON)) //nolint:gosec // base64 holds no quotes
		p.DataName, p.DataSize = "linerate-"+d.ID+".json", units.Bytes(len(in.JSON)).Binary()
	}
	return p
}

func percent(share float64) string { return units.Percent(math.Round(1000*share) / 10).String() }

// beforeUnit is a number and the blank before its unit.
var beforeUnit = regexp.MustCompile(`([0-9]) (%|[kMGT]?(?:bit/s|B|iB)\b|[nµm]?s\b|min\b)`)

// whole has no line break between a number and its unit.
func whole(text string) string { return beforeUnit.ReplaceAllString(text, "$1\u00a0$2") }

// sentence begins with a capital.
func sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// facts are those of both ends side by side.
func facts(s model.Session) []factRow {
	near, _ := s.Facts(model.Near)
	far, _ := s.Facts(model.Far)
	var rows []factRow
	add := func(name, a, b string) {
		if a != "" || b != "" {
			rows = append(rows, factRow{name, plain.Line(a), plain.Line(b), a != b && a != "" && b != ""})
		}
	}
	add("system", strings.TrimSpace(near.OS+" "+near.Arch), strings.TrimSpace(far.OS+" "+far.Arch))
	add("kernel", text(near.Kernel), text(far.Kernel))
	add("processors", number(near.CPUs), number(far.CPUs))
	add("interface", text(near.Interface), text(far.Interface))
	add("link", text(near.LinkRate), text(far.LinkRate))
	add("MTU", text(near.MTU), text(far.MTU))
	add("congestion control", text(near.Congestion), text(far.Congestion))
	add("queueing discipline", text(near.Qdisc), text(far.Qdisc))
	a, b := card(near), card(far)
	add("card", a[0], b[0])
	add("driver", a[1], b[1])
	add("linerate", near.Version, far.Version)
	var ids []model.KnobID
	for id := range near.Knobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		x, known := near.Knobs[id].Get()
		y, also := far.Knobs[id].Get()
		if known && also && x != y {
			rows = append(rows, factRow{plain.Line(string(id)), plain.Line(x), plain.Line(y), true})
		}
	}
	return rows
}

func text[T any](f fact.Of[T]) string {
	v, ok := f.Get()
	if !ok {
		return "unknown: " + f.Reason()
	}
	return fmt.Sprint(v)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// card is the interface's hardware and its driver, "" where nobody tells.
func card(f model.HostFacts) [2]string {
	for _, n := range f.NICs {
		if n.Name == f.Interface.Or("") {
			return [2]string{strings.TrimSpace(n.Bus.Kind.Or("") + " " + n.Bus.Device.Or("")), strings.TrimSpace(n.Driver.Or("") + " " + n.Version.Or(""))}
		}
	}
	return [2]string{}
}
