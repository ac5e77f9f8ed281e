package html_test

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/browsertest"
	"linerate/internal/report/html"
	"linerate/internal/report/importer"
	"linerate/internal/report/reporttest"
)

// cases returns sessions of every kind: those of all reports, the last session of a search for
// settings, and one from another program's files.
func cases(t *testing.T) []reporttest.Case {
	t.Helper()
	all := reporttest.Cases()
	tuned := all[slices.IndexFunc(all, func(c reporttest.Case) bool { return c.Name == "sequential" })]
	tuned.Name, tuned.Session.Kind = "tune", model.KindTune
	var o importer.Options
	for _, text := range []string{"setting=window", "goodput=avg:Mbit/s", "min=min:Mbit/s", "max=max:Mbit/s"} {
		o.Columns = append(o.Columns, must.Get(importer.ParseColumn(text))(t))
	}
	f := must.Get(importer.Read("csv", []byte("window,avg,min,max\n65536,209.98,145.00,304.00\n131072,220.12,161.00,373.00\n"), o))(t)
	s, samples, err := importer.Session([]importer.Named{{Name: "windows.csv", File: f}}, importer.About{ID: "20261121T130000-imp0", Version: "0.1.0", Now: time.Unix(1795266000, 0)})
	must.Do(t, err)
	return append(all, tuned, reporttest.Case{Name: "imported", Session: s, Samples: samples})
}

// TestUndated: the page of files without a time does not show that of their import as that of the
// measurement.
func TestUndated(t *testing.T) {
	must.Contain(t, pages(t)["imported"], "imported 2026-11-21 13:00 UTC, measured at an unknown time</p>")
}

// pages returns the page of every test session.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, c := range cases(t) {
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		var b bytes.Buffer
		in := html.Input{Session: c.Session, Document: d, Samples: c.Samples, Text: "as text <&>", Attached: []html.File{{Name: "all.json", Kind: "application/json", What: "all data, as JSON", Content: []byte(`{"a":1}`)}}}
		if c.Name == "tune" {
			in.Answer = []string{"goodput to nas 2.90 times (8 blocks): far.tcp.recv_buffer_max 64 KiB -> 256 KiB", "linerate undo puts it back"}
		}
		must.Dof(t, html.Render(&b, in), "%s", c.Name)
		all[c.Name] = b.String()
		if folder := os.Getenv("LINERATE_PAGES"); folder != "" { // to look at them
			must.Do(t, os.WriteFile(filepath.Join(folder, c.Name+".html"), b.Bytes(), 0o600))
		}
	}
	return all
}

// TestPageNeedsNothing: a page refers to nothing outside itself and has no script.
func TestPageNeedsNothing(t *testing.T) {
	outside := regexp.MustCompile(`(?i)(src|href|action|data)\s*=\s*"(https?:)?//|@import|url\(|<script|<iframe|<object|javascript:| on[a-z]+=`)
	for name, page := range pages(t) {
		must.Equal(t, outside.FindString(page), "", "%s: the page has", name)
		must.True(t, !strings.Contains(page, "ZgotmplZ") && !strings.Contains(page, "%!") && !strings.Contains(page, "NaN"),
			"%s: a value of the page could not be written", name)
	}
}

// TestPageSaysTheAnswerFirst: the first heading is the answer, and the page has everything from
// the report.
func TestPageSaysTheAnswerFirst(t *testing.T) {
	heading := regexp.MustCompile(`<h1[^>]*>([^<]+)</h1>`)
	all := pages(t)
	for _, c := range cases(t) {
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		page := all[c.Name]
		first := heading.FindStringSubmatch(page)
		if first == nil || strings.TrimSpace(first[1]) == "" {
			t.Errorf("%s: no answer", c.Name)
			continue
		}
		for _, f := range d.Findings {
			must.Contain(t, plain(page), f.Text, "%s: the finding", c.Name)
		}
		if d.Check != nil {
			for _, l := range d.Check.Lines {
				must.True(t, l.Number == "" || strings.Contains(plain(page), "<b>"+l.Number+"</b> "+l.Text), "%s: %s of %s is missing", c.Name, l.Number, l.Label)
			}
		}
		for _, w := range append(d.Warnings, d.Untrustworthy) {
			must.Contain(t, plain(page), w, "%s: the warning", c.Name)
		}
		for _, l := range d.Latencies {
			must.Contain(t, page, report.LatencyName(l), "%s: the times of", c.Name)
		}
		if d.Section != nil {
			for _, b := range d.Section.Blocks {
				for _, row := range append(b.Rows, []traffic.Cell{{Text: b.Text}}) {
					for _, cell := range row {
						must.True(t, strings.Contains(strings.ToLower(plain(page)), strings.ToLower(cell.Text)), "%s: %q of the engine's part is missing", c.Name, cell.Text)
					}
				}
			}
		}
		for _, n := range d.Next {
			must.Contain(t, plain(page), n.Command, "%s: the command", c.Name)
		}
	}
}

// plain undoes the escapes of a page.
func plain(page string) string {
	return strings.NewReplacer("\u00a0", " ", "&lt;", "<", "&gt;", ">", "&#34;", `"`, "&#39;", "'", "&#43;", "+", "&amp;", "&").Replace(page)
}

// TestNamesOfHostsAreText: the name of a host cannot become markup.
func TestNamesOfHostsAreText(t *testing.T) {
	c := reporttest.Cases()[0]
	c.Session.Hosts[1].Name = `<script>alert("nas")</script>` + "\x1b[2J"
	c.Session.Warnings = []string{"\x1b[2J\x00"}
	d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
	var b bytes.Buffer
	must.Do(t, html.Render(&b, html.Input{Session: c.Session, Document: d, Samples: c.Samples}))
	must.True(t, !strings.ContainsAny(b.String(), "\x1b\x00"), "what a terminal obeys is in the page")
	must.True(t, !strings.Contains(b.String(), "<script"), "a host's name is a script of the page")
}

// TestPageSaysWhatToDo: the next step stands above the first section, with its command, and
// each finding has its remedy.
func TestPageSaysWhatToDo(t *testing.T) {
	all := pages(t)
	advised, led := 0, 0
	for _, c := range cases(t) {
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		head, rest, _ := strings.Cut(plain(all[c.Name]), "</header>")
		lead, leads := d.Lead()
		must.Equal(t, strings.Contains(head, "What to do:"), leads || d.Advice != "", "%s: what to do is said", c.Name)
		if d.Advice != "" {
			advised++
		}
		if leads {
			led++
		}
		must.True(t, strings.Contains(strings.ReplaceAll(head, "\u00a0", " "), d.Advice) && (!leads || strings.Contains(head, lead.Command)),
			"%s: advice %q and lead %+v are not both in the head", c.Name, d.Advice, lead)
		for _, f := range d.Findings {
			for _, r := range f.Remedies() {
				must.Contain(t, strings.ReplaceAll(rest, "\u00a0", " "), r[1:], "%s: %q is missing", c.Name, r)
			}
		}
	}
	must.True(t, advised >= 3 && led >= 3, "%d pages have advice and %d a command: the test looks in the wrong place", advised, led)
}

// TestPagesOfExperimentsOpenWithThePicture: the picture of the settings' results stands once,
// above all tables.
func TestPagesOfExperimentsOpenWithThePicture(t *testing.T) {
	for name, figure := range map[string]string{"grid": "grid", "fixed": "settings", "tune": "settings"} {
		text := pages(t)[name]
		picture, table := strings.Index(text, `<figure id="`+figure+`"`), strings.Index(text, "<table")
		must.True(t, picture >= 0 && picture < table && strings.Count(text, `<figure id="`+figure+`"`) == 1, "%s: the picture is at %d, the first table at %d", name, picture, table)
	}
}

// TestPagesInABrowser opens every kind of session in a desktop and a phone window, on a light
// and a dark background, without network and scripts. It allows no console output, no request,
// nothing wider than the window, nothing hard to read and no overlaps, and every control must
// be reachable by keyboard. With LINERATE_PAGES it writes screenshots into that folder.
func TestPagesInABrowser(t *testing.T) {
	b := browsertest.Start(t)
	folder := t.TempDir()
	for name, page := range pages(t) {
		path := filepath.Join(folder, name+".html")
		const most = `data-name="99 % within">`
		page = strings.Replace(page, most, most+"unknown: it takes 100 answers or more, and there are 99 ", 1) // a value may be a sentence
		must.Do(t, os.WriteFile(path, []byte(page), 0o600))
		address := (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
		t.Run(name, func(t *testing.T) {
			p := b.Open(t, address, browsertest.View{Width: browsertest.Desk})
			for _, v := range []browsertest.View{
				{Width: browsertest.Desk}, {Width: browsertest.Phone}, {Width: browsertest.Desk, Dark: true}, {Width: browsertest.Phone, Dark: true},
			} {
				p.Look(v)
				at := fmt.Sprintf("%d pixels, dark %t", v.Width, v.Dark)
				for _, x := range p.Problems() {
					t.Errorf("%s: the console says %s", at, x)
				}
				got := p.Requests()
				must.True(t, len(got) == 1 && got[0] == address, "%s: it asked for %v", at, got)
				for _, x := range p.Faults() {
					t.Errorf("%s: %s", at, x)
				}
				if out := os.Getenv("LINERATE_PAGES"); out != "" {
					p.Shot(filepath.Join(out, fmt.Sprintf("%s-%d-%t.png", name, v.Width, v.Dark)))
				}
				if v != (browsertest.View{Width: browsertest.Phone, Dark: true}) {
					continue
				}
				controls, faults := p.Keyboard()
				must.True(t, controls >= 2, "%s: only %d controls: the test looks in the wrong place", at, controls)
				for _, x := range faults {
					t.Errorf("%s: %s", at, x)
				}
			}
		})
	}
}
