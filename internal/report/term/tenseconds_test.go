package term_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// jargon are words that a person has to have learnt. That a session must not be
// believed is said with what differed, in any case.
var jargon = regexp.MustCompile(`(?i)e-value|\bp [0-9]|\bp assumes|\balpha\b|bootstrap|evidence|intervals? of [0-9]|confidence|noise of|over runs|over intervals|together:|copy of the baseline|guard (holds|violated|not decided)|larger than the margin|not enough data`)

// leading is the first word of a command that leads on from a report.
var leading = regexp.MustCompile(`(^|: | {4})linerate (show|run|tune|keep|test|check|set|sweep|copy|knobs|recheck|demo|undo) ?\S`)

// Issue 12, point 7: every report that is printed fits its width says nothing in the words of statistics unless it is asked to, and ends
// with a command that leads on.
func TestEveryGoldenReport(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d golden reports: %v", len(files), err)
	}
	reports := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".golden")
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
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
