package html_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"linerate/internal/report"
	"linerate/internal/report/html"
	"linerate/internal/report/reporttest"
)

// pages returns the page of every session that there is.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, c := range reporttest.Cases() {
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		var b bytes.Buffer
		in := html.Input{Session: c.Session, Document: d, Samples: c.Samples, Text: "as text <&>", JSON: []byte(`{"a":1}`)}
		if err := html.Render(&b, in); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		all[c.Name] = b.String()
		if folder := os.Getenv("LINERATE_PAGES"); folder != "" { // to look at them
			if err := os.WriteFile(filepath.Join(folder, c.Name+".html"), b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// TestPageNeedsNothing: a page names nothing outside itself and has no script.
func TestPageNeedsNothing(t *testing.T) {
	outside := regexp.MustCompile(`(?i)(src|href|action|data)\s*=\s*"(https?:)?//|@import|url\(|<script|<iframe|<object|javascript:| on[a-z]+=`)
	for name, page := range pages(t) {
		if at := outside.FindString(page); at != "" {
			t.Errorf("%s: the page has %q", name, at)
		}
		if strings.Contains(page, "ZgotmplZ") || strings.Contains(page, "%!") || strings.Contains(page, "NaN") {
			t.Errorf("%s: a value of the page could not be written", name)
		}
	}
}

// TestPageSaysTheAnswerFirst: the first heading is the answer, and everything that the
// report knows is there.
func TestPageSaysTheAnswerFirst(t *testing.T) {
	heading := regexp.MustCompile(`<h1>([^<]+)</h1>`)
	all := pages(t)
	for _, c := range reporttest.Cases() {
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		page := all[c.Name]
		first := heading.FindStringSubmatch(page)
		if first == nil || strings.TrimSpace(first[1]) == "" {
			t.Errorf("%s: no answer", c.Name)
			continue
		}
		for _, f := range d.Findings {
			if !strings.Contains(plain(page), f.Text) {
				t.Errorf("%s: the finding %q is missing", c.Name, f.Text)
			}
		}
		if d.Check != nil {
			for _, l := range d.Check.Lines {
				if l.Number != "" && !strings.Contains(plain(page), "<b>"+l.Number+"</b> "+l.Text) {
					t.Errorf("%s: %s of %s is missing", c.Name, l.Number, l.Label)
				}
			}
		}
		for _, w := range append(d.Warnings, d.Untrustworthy) {
			if !strings.Contains(plain(page), w) {
				t.Errorf("%s: the warning %q is missing", c.Name, w)
			}
		}
		for _, n := range d.Next {
			if !strings.Contains(plain(page), n.Command) {
				t.Errorf("%s: the command %q is missing", c.Name, n.Command)
			}
		}
	}
}

// plain undoes the escapes of a page.
func plain(page string) string {
	return strings.NewReplacer("\u00a0", " ", "&lt;", "<", "&gt;", ">", "&#34;", `"`, "&#39;", "'", "&#43;", "+", "&amp;", "&").Replace(page)
}

// TestNamesOfHostsAreText: what a host calls itself cannot become part of the page.
func TestNamesOfHostsAreText(t *testing.T) {
	c := reporttest.Cases()[0]
	c.Session.Hosts[1].Name = `<script>alert("nas")</script>` + "\x1b[2J"
	c.Session.Warnings = []string{"\x1b[2J\x00"}
	d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
	var b bytes.Buffer
	if err := html.Render(&b, html.Input{Session: c.Session, Document: d, Samples: c.Samples}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\x00") {
		t.Error("what a terminal obeys is in the page")
	}
	if strings.Contains(b.String(), "<script") {
		t.Error("a host's name is a script of the page")
	}
}
