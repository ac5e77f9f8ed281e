package term_test

import (
	"bytes"
	"errors"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
	"linerate/internal/report/term"
)

// golden compares got with a file of testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	must.Golden(t, filepath.Join("testdata", name+".golden"), got)
}

func render(t *testing.T, d report.Document, o term.Options) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, term.Render(&b, d, o))
	return b.String()
}

func TestGolden(t *testing.T) {
	for _, c := range reporttest.Cases() {
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		for suffix, o := range map[string]term.Options{
			"":         {},
			"-wide":    {Width: 120},
			"-40":      {Width: 40},
			"-color":   {Color: true},
			"-details": {Details: true},
		} {
			t.Run(c.Name+suffix, func(t *testing.T) { golden(t, c.Name+suffix, render(t, d, o)) })
		}
	}
}

var escape = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func TestLooks(t *testing.T) {
	for _, c := range reporttest.Cases() {
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		plain := render(t, d, term.Options{})
		must.True(t, !strings.ContainsRune(plain, '\x1b'), "%s: escape sequences without colour", c.Name)
		must.True(t, escape.ReplaceAllString(render(t, d, term.Options{Color: true}), "") == plain, "%s: colour changes the text", c.Name)
	}
}

// Issue 10, "What it must show": at 80 and at 40 columns, no line of any report is longer, and
// no word is broken or left out.
func TestNoLineIsTooLongAndNoWordBroken(t *testing.T) {
	for name, write := range documents(t) {
		wide := words(write(term.Options{Width: 99}))
		for _, width := range []int{40, 60, 80} {
			text := write(term.Options{Width: width})
			must.Equal(t, strings.Count(plain.ASCII(text), "?"), strings.Count(text, "?"), "%s: a character has no likeness in ASCII:\n%s", name, text)
			for line := range strings.Lines(text) {
				n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
				must.True(t, n <= width, "%s: %d columns in a width of %d: %q", name, n, width, line)
				must.Equal(t, strings.TrimRight(line, " \n")+"\n", line, "%s: space at the end of %q", name, line)
			}
			narrow := words(text)
			for w := range wide {
				must.True(t, narrow[w] || plotted.MatchString(w), "%s: %q is lost or broken in a width of %d:\n%s", name, w, width, text)
			}
			for w := range narrow {
				must.True(t, wide[w] || plotted.MatchString(w), "%s: %q is only in a width of %d:\n%s", name, w, width, text)
			}
		}
	}
}

// plotted matches the words of a plot: its marks, and the ends of its scale, which depend on
// the width.
var plotted = regexp.MustCompile("^([-|:=o<>#+│┊█─━●◂▸]+|[-+0-9.]+|x|%|[0-9.]+x)$")

// words returns all words of a text, without the characters that join it to lines.
func words(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == ',' || r == '\\' }) {
		out[strings.TrimSuffix(w, ":")] = true
	}
	delete(out, "")
	return out
}

// documents returns a writer for every report with a golden file.
func documents(t *testing.T) map[string]func(term.Options) string {
	t.Helper()
	out := map[string]func(term.Options) string{}
	of := func(name string, s model.Session, samples model.Samples) {
		d := report.Build(s, report.Options{Samples: samples})
		out[name] = func(o term.Options) string { return render(t, d, o) }
		out[name+" with details"] = func(o term.Options) string { o.Details = true; return render(t, d, o) }
	}
	for _, c := range reporttest.Cases() {
		of(c.Name, c.Session, c.Samples)
	}
	of("copy of parts", copyParts(), nil)
	for name, s := range sweeps() {
		of("sweep "+name, s, nil)
	}
	out["list"] = func(o term.Options) string {
		var b bytes.Buffer
		must.Do(t, term.RenderList(&b, listed(), o))
		return b.String()
	}
	out["tuned"] = func(o term.Options) string {
		var b bytes.Buffer
		must.Do(t, term.RenderTuned(&b, report.Tuned{
			Headline: "1 of 4 ideas helped to nas.example.org: far.tcp.recv_buffer_max 64 KiB -> 4 MiB",
			Measured: []report.Measured{
				{Setting: "current", Label: "to nas.example.org, before", Median: 26.8e6, Text: "26.8 Mbit/s (25.9 to 27.2 Mbit/s)"},
				{Setting: "4 MiB", Label: "to nas.example.org, after", Median: 172.8e6, Text: "172.8 Mbit/s (168.1 to 175 Mbit/s)"},
			},
			Gains: []string{"to nas.example.org: at least 5.9 times the goodput (95 %), 7 blocks; 26.8 Mbit/s -> 172.8 Mbit/s"},
			Rest:  []string{"far.tcp.sack on: no effect (0.3 % lower, 5 blocks)", "near.tcp.send_buffer_max 16 MiB: a guard refuses it: latency under load (p99) 4.1 times"},
			Cost:  "23 runs of the search and 14 of the proof, 2 min 35 s", Reason: "nothing that is left promises more than 5 %",
		}, o))
		return b.String()
	}
	out["path"] = func(o term.Options) string {
		var b bytes.Buffer
		must.Do(t, term.RenderPath(&b, mounted(), o))
		return b.String()
	}
	return out
}

// TestModesNeverMix looks for the other mode's number in the whole text.
func TestModesNeverMix(t *testing.T) {
	p := regexp.MustCompile(`\bp [0-9]`)
	for _, c := range reporttest.Cases() {
		text := render(t, report.Build(c.Session, report.Options{Kinds: reporttest.Kinds()}), term.Options{Details: true})
		fixed := c.Session.Plan.Mode == model.FixedBlocks
		must.True(t, !p.MatchString(text) || fixed, "%s: a p value in sequential mode", c.Name)
		must.True(t, !fixed || !strings.Contains(text, "evidence "), "%s: evidence in fixed mode", c.Name)
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
		for _, r := range render(t, report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()}), term.Options{}) {
			must.Need(t, r != '\x1b' && r != '\r' && r != '\u202e' && r != '\u009b' && r != '\x07', "%s: %q reaches the terminal", c.Name, r)
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
		o := term.Options{Width: rapid.IntRange(0, 150).Draw(r, "width")}
		must.Do(r, term.Render(&bytes.Buffer{}, report.Build(s, report.Options{Kinds: reporttest.Kinds()}), o))
	})
}

// A verdict without blocks or a setting name, whose intervals have no ends.
func TestBareVerdictRenders(t *testing.T) {
	open := model.Interval{Low: model.Bound(math.Inf(-1)), High: model.Bound(math.Inf(1))}
	v := model.Verdict{Metric: model.RTT, Estimate: 1, Interval: open, Family: &open}
	s := model.Session{Plan: model.Plan{Margin: 3}, Verdicts: []model.Verdict{v, v}}
	must.True(t, render(t, report.Build(s, report.Options{}), term.Options{}) != "", "nothing")
}

type brokenWriter struct{}

var errBroken = errors.New("broken pipe")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteErrorIsReturned(t *testing.T) {
	must.Is(t, term.Render(brokenWriter{}, report.Document{}, term.Options{}), errBroken)
}

func listed() report.List {
	var l report.List
	for _, c := range reporttest.Cases() {
		s := c.Session
		i := model.Item{ID: s.ID, Kind: s.Kind, Title: s.Title, Near: s.Near, Far: s.Far, Created: s.Created, State: s.State, Reason: s.Reason, Runs: len(s.Runs)}
		l.Sessions = append(l.Sessions, report.NewListItem(i, s))
	}
	l.Now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return l
}

func TestList(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, term.RenderList(&b, listed(), term.Options{Zone: time.FixedZone("", 3600)}))
	golden(t, "list", b.String())
	b.Reset()
	err := term.RenderList(&b, report.List{}, term.Options{})
	must.True(t, err == nil && b.String() == "no sessions yet\n", "%q, %v", b.String(), err)
}

// Issue 10, item 14: reports once showed a rate that no host can send as if it had been sent.
func TestSentRateStandsBesideTheAskedOne(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "datagrams" {
			continue
		}
		r := &c.Session.Runs[0]
		r.Flow = udp.With(r.Flow, udp.Params{Rate: 999e12, Pacing: "clock"})
		for i := range r.Ends {
			r.Ends[i].Flows[0].Bytes = 20 * 7.5e9 / 8
		}
		text := strings.Join(strings.Fields(render(t, report.Build(c.Session, report.Options{Kinds: reporttest.Kinds()}), term.Options{})), " ")
		want := "7.5 Gbit/s sent (999 Tbit/s asked for), paced by clock"
		must.True(t, strings.Contains(text, want), "no %q in\n%s", want, text)
		return
	}
	t.Fatal("no case of datagrams")
}

// A sender without a report on its pacing leaves no loose end.
func TestDatagramsOfASilentSender(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "datagrams" {
			continue
		}
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		for i := range d.Lines {
			d.Lines[i].Datagrams.Pacing = ""
			d.Lines[i].Datagrams.SentRate = fact.Unknown[units.BitRate]("")
		}
		var b bytes.Buffer
		must.Do(t, term.Render(&b, d, term.Options{Width: 200}))
		text := b.String()
		must.True(t, strings.Contains(text, ", 500 Mbit/s asked for\n") && !strings.Contains(text, "paced by"), "got\n%s", text)
		return
	}
	t.Fatal("no case of datagrams")
}

// TestCheckWhy renders a check with the reason for each line.
func TestCheckWhy(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Session.Check != nil {
			golden(t, c.Name+"-why", render(t, report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()}), term.Options{Why: true}))
		}
	}
}

// A command broken over lines is still one command for a shell, since people copy it.
func TestBrokenCommandsArePastedWhole(t *testing.T) {
	shell, err := exec.LookPath("sh")
	must.SkipIf(t, err != nil, "no sh to paste into")
	step := report.Step{What: "try it", Command: "linerate run 'root@na s;$(false)' --direction from --title 'it'\\''s  two  blanks' --factor far.tcp.recv_buffer_max=64KiB,1MiB --sudo --db '/tmp/a folder/x.db'"}
	split := func(text string) string {
		out := must.Get(exec.CommandContext(t.Context(), shell, "-c", `linerate() { printf '<%s>' "$@"; }; `+text).Output())(t)
		return string(out)
	}
	want := split(step.Command)
	for _, width := range []int{40, 60, 80, 300} {
		_, text, _ := strings.Cut(render(t, report.Document{Next: []report.Step{step}}, term.Options{Width: width}), "try it:")
		must.Equal(t, split(text), want, "width %d: a shell reads", width)
	}
	must.Contain(t, render(t, report.Document{Next: []report.Step{step}}, term.Options{OneLine: true}), "\n    "+step.Command+"\n", "in one line")
}

// TestNamesOfRowsStayWhole: where the rates of a test are too wide for the terminal, a column
// other than the row's name breaks.
func TestNamesOfRowsStayWhole(t *testing.T) {
	c := reporttest.Cases()[0]
	d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
	for i := range d.Lines {
		d.Lines[i].Label, d.Lines[i].Share, d.Lines[i].Retransmits = "from 10.0.0.2", fact.Known(1.01, "test"), fact.Known[int64](12345, "test")
		d.Lines[i].NearCPU, d.Lines[i].FarCPU = fact.Known(1.0, "test"), fact.Known(1.0, "test")
	}
	text := render(t, d, term.Options{Width: 80})
	must.True(t, regexp.MustCompile(`(?m)^  from 10\.0\.0\.2 +[\d.]+ [kMG]bit/s +about 100 % of link  12345 retransmits`).MatchString(text), "%v", text)
}
