package term_test

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"linerate/internal/core/model"
	"linerate/internal/core/tune"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/term"
)

// jargon are words that a person has to have learnt. That a session must not be
// believed is said with what differed, in any case.
var jargon = regexp.MustCompile(`(?i)e-value|\bp [0-9]|\bp assumes|\balpha\b|bootstrap|evidence|intervals? of [0-9]|confidence|noise of|over runs|over intervals|together:|copy of the baseline|guard (holds|violated|not decided)|larger than the margin|not enough data`)

// leading is the first word of a command that leads on from a report.
var leading = regexp.MustCompile(`(^|: | {4})linerate (show|run|tune|keep|test|check|set|sweep|copy|knobs|recheck|demo|undo) ?\S`)

// Issue 12, point 7: every report that is printed fits its width says nothing in the words of statistics unless it is asked to, and ends
// with a command that leads on.
func TestEveryGoldenReport(t *testing.T) {
	files := must.Get(filepath.Glob("testdata/*.golden"))(t)
	must.Need(t, len(files) >= 50, "%d golden reports:", len(files))
	reports := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".golden")
		raw := must.Get(os.ReadFile(file))(t)
		text := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(string(raw), "")
		width := 80
		switch {
		case strings.HasSuffix(name, "-wide"):
			width = 120
		case strings.HasSuffix(name, "-40"):
			width = 40
		}
		for _, fault := range faults(text, width, strings.HasSuffix(name, "-details"), !strings.HasPrefix(name, "list") && name != "copypath") { // which no store has
			t.Errorf("%s: %s", name, fault)
		}
		reports++
	}
	t.Logf("%d golden reports", reports)
}

// The same holds of a comparison of two sessions, and of a search, also one that a budget
// or an interruption cut short.
func TestOthersLeadOn(t *testing.T) {
	compared := func(w io.Writer, o term.Options) error {
		p := term.NewPage(o)
		p.Text("A  20261121T070000-9a4d  lab:rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=64KiB")
		p.Gap()
		p.Table([]string{"setting", "direction", ">median A", ">runs", ">median B", ">runs", ">change"}, [][]string{
			{"far.tcp.recv_buffer_max=64KiB", "near -> far", "941.5 Mbit/s", "20", "1.009 Gbit/s", "20", "+7.17 %"}, {"current", "far -> near", "-", "-", "941.5 Mbit/s", "20", "-"},
		}, nil)
		p.Gap()
		p.Note("no verdict: the two sessions ran one after the other")
		p.Command(report.Step{What: "see the second one", Command: "linerate show 20261121T080000-9a4d"})
		return p.Print(w)
	}
	tuned := func(s model.Session, rec tune.Record) func(io.Writer, term.Options) error {
		s.ID, s.Command = "20261121T090000-9a4d", []string{"/usr/bin/linerate", "tune", "root@nas", "--budget", "90s", "--direction=to"}
		return func(w io.Writer, o term.Options) error { return term.RenderTuned(w, report.BuildTuned(s, rec, nil), o) }
	}
	for name, c := range map[string]struct {
		write func(io.Writer, term.Options) error
		last  string
	}{
		"compared":    {compared, "see the second one: linerate show 20261121T080000-9a4d"},
		"tuned":       {tuned(model.Session{State: model.SessionDone}, tune.Record{Reason: "nothing is left to try"}), "see this again: linerate show 20261121T090000-9a4d"},
		"short":       {tuned(model.Session{State: model.SessionDone}, tune.Record{Reason: "the budget is spent"}), "give it all the time that it takes: linerate tune root@nas --direction=to"},
		"interrupted": {tuned(model.Session{State: model.SessionInterrupted}, tune.Record{}), "go on: linerate tune --resume 20261121T090000-9a4d"},
	} {
		for _, width := range []int{40, 80} {
			var text strings.Builder
			must.Do(t, c.write(&text, term.Options{Width: width}))
			for _, fault := range faults(text.String(), width, false, true) {
				t.Errorf("%s at %d columns: %s\n%s", name, width, fault, &text)
			}
			must.True(t, width != 80 || strings.HasSuffix(text.String(), "  "+c.last+"\n"), "%s does not end with %q:\n%s", name, c.last, &text)
		}
	}
}

// faults are what is wrong with a report of this width; whole is that of a session, which
// ends with a command.
func faults(text string, width int, details, whole bool) (out []string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > width && strings.Contains(strings.TrimSpace(line), " ") { // one word stays whole, to be copied
			out = append(out, "a line of "+line)
		}
	}
	if found := jargon.FindString(text); found != "" && !details {
		out = append(out, "statistics without --details: "+found)
	}
	last := lines[len(lines)-1]
	for i := len(lines) - 2; i >= 0 && strings.HasSuffix(lines[i], ` \`); i-- { // of one command
		last = lines[i]
	}
	if whole && !leading.MatchString(last) {
		out = append(out, "ends with no command: "+last)
	}
	return out
}
