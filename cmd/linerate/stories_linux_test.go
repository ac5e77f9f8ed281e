package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"linerate/internal/core/model"
)

// told is one command of a story, with what it is said to print.
type told struct {
	shown
	lines []string
}

// storyOf returns the commands of a page with their output, as shownIn does without.
func storyOf(text string) []told {
	var all []told
	for _, b := range blocks(text) {
		for _, line := range b.lines {
			switch one := shownIn("```console\n" + line + "\n```\n"); {
			case b.language != "console":
			case len(one) == 1:
				all = append(all, told{shown: one[0]})
			case len(all) > 0 && strings.TrimSpace(line) != "":
				all[len(all)-1].lines = append(all[len(all)-1].lines, line)
			}
		}
	}
	return all
}

var (
	numbers = regexp.MustCompile(`\d+(\.\d+)?`)
	scales  = regexp.MustCompile(`\b(N [kMG]?bit/s|N [KM]iB|N [mµ]?s)\b`)
)

// shape is a text without its numbers, their scales, and how it was broken into lines.
func shape(text string) string {
	return scales.ReplaceAllString(numbers.ReplaceAllString(strings.Join(strings.Fields(text), " "), "N"), "N")
}

// TestStories runs every command of the stories: it ends as the page says, and prints
// the lines that the page shows, with other numbers.
func TestStories(t *testing.T) {
	t.Parallel()
	needLab(t)
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "stories", "*.md"))
	if err != nil || len(pages) < 2 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		story := storyOf(string(text))
		t.Run(filepath.Base(page), func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "r.db")
			lines := 0
			for _, c := range story {
				args := append(strings.Fields(c.command)[1:], "--db", db)
				r := run(t, command(t, args...))
				if r.code != c.code {
					t.Errorf("%s: exit code %d, want %d\n%s%s", c.command, r.code, c.code, r.out, r.err)
				}
				got := shape(r.out + "\n" + r.err)
				for _, want := range c.lines {
					if lines++; !strings.Contains(got, shape(want)) {
						t.Errorf("%s does not say %q:\n%s%s", c.command, want, r.out, r.err)
					}
				}
			}
			if lines < 5 {
				t.Errorf("%d lines of output on the page", lines)
			}
			if filepath.Base(page) == "slow-gigabit.md" {
				theWindowHelps(t, db, story[len(story)-1])
			}
		})
	}
}

// theWindowHelps demands of the experiment of the story, its last command, what its page
// claims: the larger MTU alone brings little, the larger window at least doubles the
// goodput. What other work on the machine spoilt is measured again.
func theWindowHelps(t testing.TB, db string, c told) {
	t.Helper()
	for try := 1; ; try++ {
		experiment, _ := search(t, db)
		times, better := map[string]float64{}, 0
		for _, v := range experiment.Verdicts {
			if v.Metric != model.Goodput {
				continue
			}
			times[v.Setting] = math.Exp(v.Estimate)
			if v.Outcome == model.Better && (v.Setting == "A1B2" || v.Setting == "A2B2") {
				better++
			}
		}
		alone, known := times["A2B1"]
		if known && alone < 1.5 && times["A1B2"] > 2 && times["A2B2"] > 2 && better == 2 {
			return
		}
		t.Logf("try %d: times the goodput of 1500 B and the small window: %v", try, times)
		if try == 3 {
			t.Fatal("not as the page says")
		}
		succeed(t, append(strings.Fields(c.command)[1:], "--db", db)...)
	}
}

// TestShape: numbers and line breaks do not count, words do.
func TestShape(t *testing.T) {
	if a, b := shape("to far  122.3 Mbit/s  at\n  5.56 ms"), shape("to far 1.1 Gbit/s at 7 s"); a != b {
		t.Errorf("%q and %q", a, b)
	}
	if shape("back to 9000 B") == shape("stays 9000 B") {
		t.Error("words are lost")
	}
}
