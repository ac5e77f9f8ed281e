package term_test

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"linerate/internal/core/bottleneck"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
	"linerate/internal/report/term"
)

// Issue 12, point 7: verdicts for people come first, statistics behind --details. A session
// that is not trustworthy always says why.
func TestStatisticsAreDetails(t *testing.T) {
	for _, c := range reporttest.Cases() {
		if c.Name == "sweep" || c.Session.Check != nil || c.Name == "copy" { // which have reports of their own kind
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

// At 80 columns, a decided setting without a refusal takes one line.
func TestAVerdictIsOneLine(t *testing.T) {
	want := map[string][]string{
		"sequential": {"  128K  597.4 Mbit/s, 1.87 times as fast, at least 1.83; 8 blocks, decided\n"},
		"fixed": {"  bbr    935.9 Mbit/s, no difference that matters (at most 0.42 %); 10 blocks\n",
			"  nagle  921.4 Mbit/s, not decided: about 14 blocks more (17 min 30 s)\n"},
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

// Where there is room, the interval is drawn beside the verdict, without the one for all
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

// The text on other changes does not mention guards and their states: only what exceeds a
// guard's limit, and what may exceed it.
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
		text = render(t, d, term.Options{Details: true})
		must.True(t, strings.Contains(text, "better, guard holds") && strings.Contains(text, "guard violated"), "with details:\n%s", text)
		return
	}
	t.Fatal("no case")
}

// gigabit is 20 µs and 1 Gbit/s.
func gigabit(n units.Bytes) time.Duration {
	return 20*time.Microsecond + 8*time.Duration(n)*time.Nanosecond
}

// collapse is the card that collapses beyond a message size, and stalls beyond
// another (seed 004: 3c905B and 82559 at 100 Mbit/s in the ALi board).
func collapse(n units.Bytes) time.Duration {
	switch {
	case n > 1<<20:
		return -1
	case n > 24580:
		return 4 * gigabit(n)
	}
	return gigabit(n)
}

func sweeps() map[string]model.Session {
	healthy := reporttest.SweepSession(5, 0, 8<<20, gigabit)
	found := reporttest.SweepSession(5, 0, 2<<20, collapse)
	found.Runs[2].Ends[1].Points = []model.Point{{Size: 49152, Log: []string{"dc0: TX underrun -- increasing TX threshold"}}}
	confirmed := reporttest.SweepSession(5, 12, 2<<20, collapse)
	thin := reporttest.SweepSession(2, 0, 4096, gigabit)
	thin.State, thin.Reason = model.SessionInterrupted, "stopped by the user"
	return map[string]model.Session{"healthy": healthy, "found": found, "confirmed": confirmed, "thin": thin}
}

func TestSweepGolden(t *testing.T) {
	for name, s := range sweeps() {
		for suffix, o := range map[string]term.Options{"": {}, "-color": {Color: true}} {
			t.Run(name+suffix, func(t *testing.T) {
				golden(t, "sweep-"+name+suffix, render(t, report.Build(s, report.Options{Kinds: reporttest.Kinds()}), o))
			})
		}
	}
}

// TestSweepLooks: whatever hosts and kernels say, nothing steers the terminal,
// and plain text fits.
func TestSweepLooks(t *testing.T) {
	s := reporttest.SweepSession(5, 12, 2<<20, collapse)
	s.Hosts[1].Name = "n\x1b[2Jas"
	s.Runs[0].Ends[0].Waiting = "\x07bell"
	s.Runs[0].Ends[1].Points = []model.Point{{Size: 49152, Log: []string{"\x1b[31mred " + strings.Repeat("and long ", 30)}}}
	for _, width := range []int{40, 60, 80} {
		for line := range strings.Lines(render(t, report.Build(s, report.Options{Kinds: reporttest.Kinds()}), term.Options{Width: width})) {
			must.True(t, !strings.ContainsAny(line, "\x1b\x07"), "line %q steers", line)
			must.True(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) <= width || strings.HasPrefix(line, "    linerate "),
				"width %d: line %q is too long", width, line)
		}
	}
}

func copyParts() model.Session {
	s := reporttest.CopySession(4, map[string]float64{
		bottleneck.MemoryToMemory: 933e6, bottleneck.MemoryToDisk: 398e6, bottleneck.DiskToMemory: 610e6, bottleneck.DiskToDisk: 192e6,
		bottleneck.Network: 935e6, bottleneck.Read: 614e6, bottleneck.Write: 400e6, bottleneck.Memory: 41e9,
	})
	s.Runs[0].Warnings = []string{"nas: memory is memory of the process and no file"}
	return s
}

func TestCopyGolden(t *testing.T) {
	s := copyParts()
	for suffix, o := range map[string]term.Options{"": {}, "-wide": {Width: 120}, "-color": {Color: true}} {
		t.Run("parts"+suffix, func(t *testing.T) {
			golden(t, "copyparts"+suffix, render(t, report.Build(s, report.Options{Kinds: reporttest.Kinds()}), o))
		})
	}
}

// TestCopyLooks: whatever the hosts call themselves, nothing steers the
// terminal, and plain text fits.
func TestCopyLooks(t *testing.T) {
	s := reporttest.CopySession(2, map[string]float64{bottleneck.MemoryToMemory: 1e9, bottleneck.Network: 1e9, bottleneck.Memory: 1e10})
	s.Hosts[1].Name = "n\x1b[2Jas"
	s.Runs[0].Ends[0].Waiting = "\x07bell"
	text := render(t, report.Build(s, report.Options{Kinds: reporttest.Kinds()}), term.Options{})
	for line := range strings.Lines(text) {
		must.True(t, !strings.ContainsAny(line, "\x1b\x07"), "line %q steers", line)
	}
}

// mounted is the report of files of two sizes on a mounted path.
func mounted() report.PathDocument {
	var trials []report.PathTrial
	for _, rate := range []units.BitRate{400e6, 410e6, 405e6} {
		for _, size := range []units.Bytes{256 << 20, 1 << 20} {
			took := time.Duration(float64(size) * 8 / float64(rate) * 1e9)
			trials = append(trials,
				report.PathTrial{Operation: "write", Size: size, Took: took, Flush: took / 4, Rate: rate, How: "flushed and closed within the time"},
				report.PathTrial{Operation: "read", Size: size, Took: took / 2, Rate: 2 * rate, How: "page cache emptied before"})
		}
	}
	return report.BuildPath("/mnt/nas", "nfs4 from nas:/export", trials, []string{"what the server still has in its own memory cannot be seen from here"})
}

func TestPathGolden(t *testing.T) {
	d := mounted()
	must.Need(t, len(d.Rows) == 4 && d.Rows[0].Size == 1<<20 && d.Rows[0].Files == 3 && d.Rows[0].Rate == 405e6, "%+v", d)
	var b bytes.Buffer
	must.Do(t, term.RenderPath(&b, d, term.Options{}))
	golden(t, "copypath", b.String())
}
