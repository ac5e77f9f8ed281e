package term_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/reporttest"
	"linerate/internal/report/term"
)

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
