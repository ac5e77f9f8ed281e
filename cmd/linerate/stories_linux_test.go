package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"linerate/internal/must"
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

// TestStoriesAreUnderstood: the program knows every command and flag of the stories, and
// each story shows what its commands print. TestTruthOfStories runs them.
func TestStoriesAreUnderstood(t *testing.T) {
	t.Parallel()
	for page, story := range stories(t) {
		lines := 0
		for _, c := range story {
			lines += len(c.lines)
			example(t, c.command)
		}
		must.True(t, lines >= 5, "%s: %d lines of output on the page", page, lines)
	}
}

// stories returns the commands of each story by the name of its page.
func stories(t testing.TB) map[string][]told {
	t.Helper()
	pages := must.Get(filepath.Glob(filepath.Join("..", "..", "docs", "stories", "*.md")))(t)
	must.Need(t, len(pages) >= 2, "%v", pages)
	all := map[string][]told{}
	for _, page := range pages {
		text := must.Get(os.ReadFile(page))(t)
		all[filepath.Base(page)] = storyOf(string(text))
	}
	return all
}

// TestShape: numbers and line breaks do not count, words do.
func TestShape(t *testing.T) {
	t.Parallel()
	a, b := shape("to far  122.3 Mbit/s  at\n  5.56 ms"), shape("to far 1.1 Gbit/s at 7 s")
	must.True(t, a == b, "%q and %q", a, b)
	must.True(t, shape("back to 9000 B") != shape("stays 9000 B"), "words are lost")
}
