package term_test

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
	"linerate/internal/report/term"
)

func updating() bool { return flag.Lookup("update").Value.String() == "true" }

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the golden files anew")
	os.Exit(m.Run())
}

// golden compares got with a file of testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if updating() {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (renew with -update); got:\n%s\nwant:\n%s", path, got, want)
	}
}

func render(t *testing.T, d report.Document, o term.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := term.Render(&b, d, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for _, c := range reporttest.Cases() {
		d := report.Build(c.Session, report.Options{Samples: c.Samples})
		for suffix, o := range map[string]term.Options{
			"":       {},
			"-wide":  {Width: 120},
			"-ascii": {ASCII: true},
			"-color": {Color: true},
		} {
			t.Run(c.Name+suffix, func(t *testing.T) {
				golden(t, c.Name+suffix, render(t, d, o))
			})
		}
	}
}

var escape = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func TestLooks(t *testing.T) {
	for _, c := range reporttest.Cases() {
		d := report.Build(c.Session, report.Options{Samples: c.Samples})
		plain := render(t, d, term.Options{})
		if strings.ContainsRune(plain, '\x1b') {
			t.Errorf("%s: escape sequences without colour", c.Name)
		}
		if colored := render(t, d, term.Options{Color: true}); escape.ReplaceAllString(colored, "") != plain {
			t.Errorf("%s: colour changes the text", c.Name)
		}
		for _, r := range render(t, d, term.Options{ASCII: true}) {
			if r >= utf8.RuneSelf {
				t.Errorf("%s: %q in ASCII", c.Name, r)
			}
		}
		for _, width := range []int{60, 80, 100, 200} {
			for line := range strings.Lines(render(t, d, term.Options{Width: width})) {
				command := strings.HasPrefix(line, "    linerate ") // never broken: people copy it
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width && !command {
					t.Errorf("%s: %d columns in a width of %d: %q", c.Name, n, width, line)
				}
				if strings.TrimRight(line, " \n")+"\n" != line {
					t.Errorf("%s: space at the end of %q", c.Name, line)
				}
			}
		}
	}
}

// TestModesNeverMix looks for the other mode's number in the whole text.
func TestModesNeverMix(t *testing.T) {
	p := regexp.MustCompile(`\bp [0-9]`)
	for _, c := range reporttest.Cases() {
		text := render(t, report.Build(c.Session, report.Options{}), term.Options{})
		fixed := c.Session.Plan.Mode == model.FixedBlocks
		if hasP := p.MatchString(text); hasP && !fixed {
			t.Errorf("%s: a p value in sequential mode", c.Name)
		}
		if fixed && strings.Contains(text, "evidence ") {
			t.Errorf("%s: evidence in fixed mode", c.Name)
		}
	}
}

// TestHostileNames demands that a foreign host cannot write to the terminal.
func TestHostileNames(t *testing.T) {
	evil := "nas\x1b[2J\x07\r\n\u202e\u009b31m"
	for _, c := range reporttest.Cases() {
		for i := range c.Session.Hosts {
			c.Session.Hosts[i].Name = evil
		}
		c.Session.Far, c.Session.Reason, c.Session.ID = evil, evil, evil
		c.Session.Warnings = append(c.Session.Warnings, evil)
		for i := range c.Session.Verdicts {
			c.Session.Verdicts[i].Setting, c.Session.Verdicts[i].Reason = evil, evil
		}
		for _, r := range render(t, report.Build(c.Session, report.Options{Samples: c.Samples}), term.Options{}) {
			if r == '\x1b' || r == '\r' || r == '\u202e' || r == '\u009b' || r == '\x07' {
				t.Fatalf("%s: %q reaches the terminal", c.Name, r)
			}
		}
	}
}

func TestAnyVerdictRenders(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		bound := func(unbounded float64, name string) model.Bound {
			if rapid.Bool().Draw(r, name+" unbounded") {
				return model.Bound(unbounded)
			}
			return model.Bound(rapid.Float64Range(-5, 5).Draw(r, name))
		}
		family := model.Interval{Low: bound(math.Inf(-1), "family low"), High: bound(math.Inf(1), "family high")}
		v := model.Verdict{
			Setting: rapid.String().Draw(r, "setting"), Metric: rapid.SampledFrom([]model.Metric{model.Goodput, model.RTT, model.Retransmits}).Draw(r, "metric"),
			Blocks: rapid.IntRange(0, 20).Draw(r, "blocks"), Estimate: rapid.Float64Range(-5, 5).Draw(r, "estimate"),
			Interval: model.Interval{Low: bound(math.Inf(-1), "low"), High: bound(math.Inf(1), "high")}, Family: &family,
		}
		s := model.Session{Plan: model.Plan{Margin: 3}, Verdicts: []model.Verdict{v, v}}
		o := term.Options{Width: rapid.IntRange(0, 150).Draw(r, "width"), ASCII: rapid.Bool().Draw(r, "ascii")}
		if err := term.Render(&bytes.Buffer{}, report.Build(s, report.Options{}), o); err != nil {
			r.Fatal(err)
		}
	})
}

type brokenWriter struct{}

var errBroken = errors.New("broken pipe")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteErrorIsReturned(t *testing.T) {
	if err := term.Render(brokenWriter{}, report.Document{}, term.Options{}); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
}

func TestList(t *testing.T) {
	var l report.List
	for _, c := range reporttest.Cases() {
		s := c.Session
		l.Sessions = append(l.Sessions, report.ListItem{ID: s.ID, Kind: s.Kind, Title: s.Title, Far: s.Far, Created: s.Created, State: s.State, Runs: len(s.Runs)})
	}
	var b bytes.Buffer
	if err := term.RenderList(&b, l, term.Options{Zone: time.FixedZone("", 3600)}); err != nil {
		t.Fatal(err)
	}
	golden(t, "list", b.String())
	b.Reset()
	if err := term.RenderList(&b, report.List{}, term.Options{}); err != nil || b.String() != "no sessions yet\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestProgress(t *testing.T) {
	p := term.Progress{
		Phase: "measuring", Block: 3, MaxBlocks: 20, Run: 2, Runs: 5, Setting: "256K", Direction: "to nas",
		Rate: fact.Known(units.BitRate(931.2e6), "receiver"), Elapsed: 130*time.Second + 400*time.Millisecond, AtMost: 14 * time.Minute,
		Evidence: fact.Known(12.34, "stats"), EnoughIs: 40, Comparison: "256K",
	}
	tests := []struct {
		width int
		want  string
	}{
		{200, "block 3/20  run 2/5  256K to nas  931.2 Mbit/s  measuring  2 min 10 s, at most 14 min more  evidence so far 12.3 of 40 (256K)"},
		{100, "block 3/20  run 2/5  256K to nas  931.2 Mbit/s  measuring  2 min 10 s, at most 14 min more"},
		{80, "block 3/20  run 2/5  256K to nas  931.2 Mbit/s  2 min 10 s, at most 14 min more"},
		{60, "block 3/20  run 2/5  256K to nas  931.2 Mbit/s"},
		{40, "block 3/20  256K to nas  931.2 Mbit/s"},
		{30, "block 3/20  931.2 Mbit/s"},
		{10, ""},
	}
	for _, test := range tests {
		if got := p.Line(test.width, false); got != test.want {
			t.Errorf("width %d: %q, want %q", test.width, got, test.want)
		}
	}
	if got, want := (term.Progress{Direction: "to nas", Elapsed: time.Second}).Line(80, true), "to nas  1 s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	rapid.Check(t, func(r *rapid.T) {
		p.Setting = rapid.String().Draw(r, "setting")
		width := rapid.IntRange(0, 200).Draw(r, "width")
		if line := p.Line(width, rapid.Bool().Draw(r, "ascii")); utf8.RuneCountInString(line) > width || strings.ContainsAny(line, "\n\x1b") {
			r.Errorf("%q in width %d", line, width)
		}
	})
}

// A sender that does not tell how it paces leaves no loose end.
func TestDatagramsOfASilentSender(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "datagrams" {
			continue
		}
		d := report.Build(c.Session, report.Options{Samples: c.Samples})
		for i := range d.Lines {
			d.Lines[i].Datagrams.Pacing = ""
		}
		var b bytes.Buffer
		if err := term.Render(&b, d, term.Options{Width: 200}); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); !strings.Contains(text, "500 Mbit/s offered\n") || strings.Contains(text, "paced by") {
			t.Errorf("got\n%s", text)
		}
		return
	}
	t.Fatal("no case of datagrams")
}

// TestCheckNarrow: a check on 40 columns, and with what each line was told from.
func TestCheckNarrow(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Session.Check == nil {
			continue
		}
		d := report.Build(c.Session, report.Options{Samples: c.Samples})
		narrow := render(t, d, term.Options{Width: 40})
		golden(t, c.Name+"-narrow", narrow)
		golden(t, c.Name+"-why", render(t, d, term.Options{Why: true}))
		for _, line := range strings.Split(narrow, "\n") {
			if utf8.RuneCountInString(line) > 40 && !strings.HasPrefix(line, "    linerate ") { // commands are never broken
				t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
			}
		}
	}
}
