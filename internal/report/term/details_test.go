package term_test

import (
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
	"linerate/internal/report/term"
)

// Issue 12, point 7: verdicts for people first, statistics behind --details. A session
// that must not be believed says why in any case.
func TestStatisticsAreDetails(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name == "sweep" || c.Session.Check != nil || c.Name == "copy" { // which are told by their own kind
			continue
		}
		d := report.Build(c.Session, report.Options{Samples: c.Samples, Kinds: reporttest.Kinds()})
		for _, width := range []int{40, 80, 120} {
			found := jargon.FindString(render(t, d, term.Options{Width: width}))
			must.True(t, found == "", "%s: %q without --details at %d columns", c.Name, found, width)
		}
		text := render(t, d, term.Options{Details: true})
		must.True(t, len(d.Tables) <= 0 || strings.Contains(text, "intervals of 95") && strings.Contains(text, "over runs"), "%s: no statistics with --details:\n%s", c.Name, text)
	}
}

// At 80 columns a setting that is decided and not hindered is one line.
func TestAVerdictIsOneLine(t *testing.T) {
	want := map[string][]string{
		"sequential": {"  128K  597.4 Mbit/s, 1.87 times as fast, at least 1.83; 8 blocks, decided\n"},
		"fixed": {
			"  bbr    935.9 Mbit/s, no difference that matters (at most 0.42 %); 10 blocks\n",
			"  nagle  921.4 Mbit/s, not decided: about 14 blocks more (17 min 30 s)\n",
		},
		"grid": {"  recv_buffer_max=1MiB mtu=9000   933.3 Mbit/s, 2.91 times as fast, at least\n"},
	}
	for _, c := range reporttest.Cases() {
		text := render(t, report.Build(c.Session, report.Options{Kinds: reporttest.Kinds()}), term.Options{})
		for _, line := range want[c.Name] {
			must.Contain(t, text, line, "%s", c.Name)
		}
		delete(want, c.Name)
	}
	must.True(t, len(want) == 0, "no sessions %v", want)
}

// Where there is room, the interval is drawn beside the verdict, without that of all
// comparisons together.
func TestPlotBesideVerdicts(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "sequential" {
			continue
		}
		d := report.Build(c.Session, report.Options{Kinds: reporttest.Kinds()})
		if text := render(t, d, term.Options{Width: 120}); !strings.Contains(text, "decided    ┊│") || !strings.Contains(text, "━●━") || strings.Contains(text, "─") {
			t.Errorf("at 120 columns:\n%s", text)
		}
		text := render(t, d, term.Options{})
		must.True(t, !strings.ContainsAny(text, "━●┊"), "at 80 columns:\n%s", text)
		return
	}
	t.Fatal("no case")
}

// What else changed is said without guards and their states: what is more than a guard
// allows, and what may be.
func TestWhatElseChangedForPeople(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name != "guarded" {
			continue
		}
		for i := range c.Session.Verdicts {
			switch v := &c.Session.Verdicts[i]; {
			case v.Guard == nil:
			case v.Guard.State == model.GuardHolds:
				v.Outcome = model.Better
			case v.Guard.State == model.GuardOpen:
				v.Outcome = model.Worse
			}
		}
		d := report.Build(c.Session, report.Options{Kinds: reporttest.Kinds()})
		text := render(t, d, term.Options{})
		found := jargon.FindString(text)
		must.True(t, found == "" && !strings.Contains(text, "guard"), "%q in\n%s", found, text)
		for _, want := range []string{"as high  more than is allowed\n", " lower  better\n", " points higher  worse, perhaps too much\n"} {
			must.Contain(t, text, want)
		}
		if text := render(t, d, term.Options{Details: true}); !strings.Contains(text, "better, guard holds") || !strings.Contains(text, "guard violated") {
			t.Errorf("with details:\n%s", text)
		}
		return
	}
	t.Fatal("no case")
}
