package format_test

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/format"
	"linerate/internal/report/reporttest"
)

func text(t *testing.T, c reporttest.Case) (string, report.Document) {
	t.Helper()
	d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
	var b bytes.Buffer
	must.Do(t, format.Markdown(&b, format.MarkdownInput{Session: c.Session, Document: d}))
	return b.String(), d
}

// TestUndated: the heading of files without a time does not show that of their import as that of
// the measurement.
func TestUndated(t *testing.T) {
	c := reporttest.Cases()[0]
	c.Session.Kind, c.Session.Runs = model.KindImported, []model.Run{{Number: 1}}
	got, _ := text(t, c)
	heading, _, _ := strings.Cut(got, "\n")
	must.True(t, strings.HasSuffix(heading, ", imported "+c.Session.Ended.UTC().Format("2006-01-02 15:04 UTC")+", measured at an unknown time"), "%s", heading)
}

// TestTexts compares with the stored files, and demands all content of the report.
func TestTexts(t *testing.T) {
	for _, c := range reporttest.Cases() {
		got, d := text(t, c)
		must.Golden(t, filepath.Join("testdata", c.Name+".md"), got)
		plain := regexp.MustCompile(`\\([!-~])`).ReplaceAllString(got, "$1")
		all := lists.Each(d.Findings, func(f report.Finding) string { return f.Text })
		for _, l := range d.Lines {
			all = append(all, l.Goodput.String())
		}
		for _, table := range d.Tables {
			for _, r := range table.Rows {
				all = append(all, r.ChangeText, r.RangeText, r.Words)
			}
		}
		for _, n := range d.Next {
			all = append(all, n.Command)
		}
		for _, want := range append(all, append(d.Warnings, d.Untrustworthy, d.ID)...) {
			must.Contain(t, plain, want, "%s", c.Name)
		}
	}
}

// TestTablesAreWhole: all rows of a table have as many cells as its heading.
func TestTablesAreWhole(t *testing.T) {
	cells := regexp.MustCompile(`(^|[^\\])\|`)
	for _, c := range reporttest.Cases() {
		got, _ := text(t, c)
		columns := 0
		for line := range strings.Lines(got) {
			if !strings.HasPrefix(line, "|") {
				columns = 0
				continue
			}
			n := len(cells.FindAllString(line, -1))
			if strings.HasPrefix(line, "|---") {
				n = strings.Count(line, "|")
			}
			must.True(t, columns <= 0 || n == columns, "%s: %d cells where the heading has %d: %s", c.Name, n, columns, line)
			columns = n
		}
	}
}

// TestNamesAreText: names of hosts and settings cannot become markup, a mention of a person, or
// a separate line.
func TestNamesAreText(t *testing.T) {
	for evil, never := range map[string]string{
		"<script>x</script>": " <script", "**b**": "**b**", "[x](http://x)": "[x](", "a|b": " a|b", "`x`": " `x`", "@everyone": "@everyone",
		"#12": "#12", "- x": "\n- x", "1. x": "\n1. x", "x\n# y": "\n# y", "\x1b[2J": "\x1b", "_x_": " _x_", "~~x~~": "~~x~~", "![x](y)": "![x]", "&lt;": " &lt;", "$x$": " $x$",
	} {
		c := reporttest.Cases()[1]
		for i := range c.Session.Hosts {
			c.Session.Hosts[i].Name = evil
		}
		for i := range c.Session.Verdicts {
			c.Session.Verdicts[i].Setting = evil
		}
		c.Session.Warnings = []string{evil}
		c.Session.Command = nil
		c.Session.Far = "nas"
		got, _ := text(t, c)
		must.True(t, !strings.Contains(got, never), "%q is in the text as %q", evil, never)
	}
}
