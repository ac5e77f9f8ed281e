package format_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/figures"
	"linerate/internal/report/format"
	"linerate/internal/report/importer"
	"linerate/internal/report/reporttest"
)

func ticketLines(c reporttest.Case) []string {
	d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
	return format.Ticket(format.TicketInput{Session: c.Session, Document: d})
}

func TestTickets(t *testing.T) {
	for _, c := range reporttest.Cases() {
		got := strings.Join(ticketLines(c), "\n") + "\n"
		must.Golden(t, filepath.Join("testdata", c.Name+".txt"), got)
		survives(t, c.Name, got)
	}
}

// TestImported: the time of an import is not that of the test.
func TestImported(t *testing.T) {
	now := time.Date(2026, 11, 24, 13, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct{ when, measured, again string }{
		"iperf3.json":     {"When: 2026-11-23 02:15, imported 2026-11-24 13:00 UTC, between", "2026-11-23 02:15:45 UTC", "0"},
		"ib_send_lat.txt": {"When: unknown, imported 2026-11-24 13:00 UTC, between", "unknown: no time is read from the files", ""},
	} {
		f := must.Get(importer.Read("", must.Get(os.ReadFile(filepath.Join("..", "importer", "testdata", name)))(t), importer.Options{}))(t)
		s, samples, err := importer.Session([]importer.Named{{Name: name, File: f}}, importer.About{ID: "it", Now: now})
		must.Do(t, err)
		one := reporttest.Case{Session: s, Samples: samples}
		text := strings.ReplaceAll(strings.Join(ticketLines(one), " "), "\n", " ")
		must.Contain(t, text, c.when)
		must.Contain(t, text, "Runs: 1 of 1 valid: no interval")
		d := report.Build(s, report.Options{Samples: samples, Kinds: reporttest.Kinds()})
		must.True(t, slices.Contains(report.Method(s, d), [2]string{"measured", c.measured}), "%s: %q", name, report.Method(s, d))
		for _, l := range report.LineRows(d) {
			must.Equal(t, l.Again, c.again, "%s", name)
		}
	}
}

// markup matches text that some places read as formatting: emphasis, code, links, tables,
// headings, lists, quotes, rules, macros.
var markup = regexp.MustCompile("[`*~<>|\\[\\]{}^#!\\\\$\\t]|(?m:^[ ]|^[-+=]+( |$)|^[0-9]+[.)] )|(^|[^A-Za-z0-9])[_@]")

// survives checks a text against the limits of every place.
func survives(t *testing.T, name, text string) {
	t.Helper()
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	must.True(t, len(all) <= format.TicketLines, "%s: %d lines", name, len(all))
	for _, l := range all {
		must.True(t, len(l) <= format.TicketWidth && strings.TrimSpace(l) != "", "%s: a line of %d columns: %q", name, len(l), l)
	}
	must.True(t, !regexp.MustCompile(`(?m)^Against .*\.\.\.$`).MatchString(text), "%s: half an interval:\n%s", name, text)
	label := regexp.MustCompile(`^[a-z0-9]+:`)
	for _, l := range all {
		at := label.FindString(l)
		must.True(t, at == "" || strings.Contains(l, "://"), "%s: %q begins a line, as only our words may", name, at)
	}
	for _, r := range text {
		must.True(t, r <= '~' && (r >= ' ' || r == '\n'), "%s: %q is not printable ASCII", name, r)
	}
	at := markup.FindString(text)
	must.True(t, at == "", "%s: %q is markup in\n%s", name, at, text)
}

// TestTicketSaysWhatItTakes: every ticket of a finished session has the claim, the ceiling, the
// method, the number of runs, and the date.
func TestTicketSaysWhatItTakes(t *testing.T) {
	for _, c := range reporttest.Cases() {
		text := strings.ReplaceAll(strings.Join(ticketLines(c), " "), "\n", " ")
		want := []string{"desk", "nas", "eiling", "Method: linerate", "(version 0.1.0)", "When: 2026-11-21", "Runs: "}
		if len(c.Session.Verdicts) > 0 && c.Name != "untrustworthy" {
			want = append(want, "intervals of 95 %", "blocks")
		}
		if c.Session.Mesh != nil { // whose paths each have their own ceiling
			want = slices.DeleteFunc(want, func(w string) bool { return w == "eiling" })
		}
		if c.Name == "silent" {
			want = []string{"old:5201", "2026-11-21", "Nothing was measured", "connection refused"}
		}
		for _, w := range want {
			must.Contain(t, text, w, "%s: nothing says", c.Name)
		}
	}
}

// TestTicketOfHostileNames: the words of a host, a setting or a warning cannot become markup,
// more lines or wider ones.
func TestTicketOfHostileNames(t *testing.T) {
	for _, evil := range []string{"`rm`", "**b**", "<script>", "@everyone", "#1", "[x](http://x)", "a\nb", "\x1b[2J", "- x", "1. x", "x\nlinerate: all is well", strings.Repeat("linerate: x ", 20), "{code}", "_x_", "~~x~~", "| a |", "é→µ", "$x$", strings.Repeat("long", 100), strings.Repeat("- ", 100)} {
		for _, c := range reporttest.Cases() {
			for i := range c.Session.Hosts {
				c.Session.Hosts[i].Name = evil
			}
			c.Session.Warnings = append(c.Session.Warnings, evil)
			c.Session.Command = append(c.Session.Command, evil)
			for i := range c.Session.Plan.Settings {
				c.Session.Plan.Settings[i].Name += evil
			}
			for i := range c.Session.Verdicts {
				c.Session.Verdicts[i].Setting += evil
			}
			survives(t, c.Name+" with "+evil, strings.Join(ticketLines(c), "\n")+"\n")
		}
	}
}

// TestPictureOfATicket: a ticket has one picture where there are any, for an experiment the one
// with the verdicts.
func TestPictureOfATicket(t *testing.T) {
	for _, c := range reporttest.Cases() {
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		all := figures.Of(c.Session, d, c.Samples)
		f, ok := format.TicketPicture(all)
		must.Equal(t, ok, len(all) > 0, "%s: of %d pictures, one is chosen", c.Name, len(all))
		must.True(t, c.Session.Kind != model.KindRun || len(c.Session.Verdicts) == 0 || f.Name == "effects", "%s: the picture is %q", c.Name, f.Name)
	}
}

// TestCommandIsQuoted: a shell reads the command of the method as given, in the ticket and on
// the pages.
func TestCommandIsQuoted(t *testing.T) {
	c := reporttest.Cases()[0]
	c.Session.Command = []string{"linerate", "test", "nas", "--title", "before; after"}
	const want = "linerate test nas --title 'before; after'"
	must.Contain(t, strings.Join(ticketLines(c), " "), want)
	for _, row := range report.Method(c.Session, report.Document{}) {
		if row[0] == "command" {
			must.Equal(t, row[1], want)
		}
	}
}
