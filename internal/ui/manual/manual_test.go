package manual

import (
	"regexp"
	"strings"
	"testing"

	"linerate/internal/must"
	"linerate/internal/report/term"
)

// TestTopics: topics for newcomers come first, and every text has a title of its own.
func TestTopics(t *testing.T) {
	all := Topics()
	must.Need(t, len(all) >= 20, "%v", all)
	for i, name := range first {
		must.Equal(t, all[i].Name, name, "topic %d", i+1)
	}
	titles := map[string]string{}
	for _, topic := range all {
		must.True(t, topic.Title != topic.Name && topic.Title != "" && titles[topic.Title] == "",
			"%s has the title %q, as %q", topic.Name, topic.Title, titles[topic.Title])
		titles[topic.Title] = topic.Name
		for _, name := range []string{topic.Name, "docs/" + topic.Name + ".md", strings.ToUpper(topic.Name)} {
			found, ok := Find(name)
			must.True(t, ok && found.Name == topic.Name && (strings.Contains(found.Text, "\n# ") || strings.HasPrefix(found.Text, "# ")), "%s finds %q", name, found.Name)
		}
	}
	found, _ := Find("iperf3")
	must.True(t, found.Name == "wire/iperf3", "the last part of a name finds %q", found.Name)
}

// TestRender compares each kind of markup with its form on a terminal.
func TestRender(t *testing.T) {
	topic := Topic{Name: "x", Text: "# The `title`\n\nSome **strong** words, *weak* ones, and 2 * 3 * 4 of `tcp_rmem *` in [flags.md](flags.md) or\n[this](https://example.org/), see [below](#below).\n\n" +
		"- one `a|b`\n  goes on\n- two\n\n   1. three\n\n> said\n> twice\n\n## Part\n\n```console\n$ linerate  test\n```\n\n| Key | Means |\n|---|---|\n| `a\\|b` | something that is too long for one line of this terminal |\n| b | x |\n"}
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"plain", Options{Width: 60}, "The `title`\n===========\n\nSome strong words, weak ones, and 2 * 3 * 4 of `tcp_rmem *`\nin linerate docs flags or this (https://example.org/), see\nbelow.\n\n" +
			"- one `a|b` goes on\n- two\n\n   1. three\n\n  said twice\n\nPart\n----\n\n    $ linerate  test\n\n" +
			"Key    Means\n-----  -----------------------------------------------------\n`a|b`  something that is too long for one line of this\n       terminal\nb      x\n"},
		{"colour", Options{Width: 200, Color: true}, "\x1b[1mThe\x1b[0m \x1b[1mtitle\x1b[0m\n\nSome \x1b[1mstrong\x1b[0m words, weak ones, and 2 * 3 * 4 of \x1b[1mtcp_rmem\x1b[0m \x1b[1m*\x1b[0m in linerate docs flags or this (https://example.org/), see below.\n\n" +
			"- one \x1b[1ma|b\x1b[0m goes on\n- two\n\n   1. three\n\n  said twice\n\n\x1b[1mPart\x1b[0m\n\n    $ linerate  test\n\n" +
			"Key  Means\n---  --------------------------------------------------------\n\x1b[1ma|b\x1b[0m  something that is too long for one line of this terminal\nb    x\n"},
	} {
		must.Equal(t, topic.Render(c.o), c.want, "%s", c.name)
	}
}

// TestNothingIsLost: every word of every text is on the terminal, in the same order, and only
// unbreakable words exceed its width.
func TestNothingIsLost(t *testing.T) {
	word := regexp.MustCompile(`[\pL\pN]+`)
	for _, topic := range Topics() {
		found, _ := Find(topic.Name)
		for _, width := range []int{40, 80, 100} {
			shown := found.Render(Options{Width: width})
			have := map[string]int{}
			for _, w := range word.FindAllString(shown, -1) {
				have[w]++
			}
			said := links(found.Text, func(text, _ string) string { return text })
			said = regexp.MustCompile("(?m)^ *```.*$").ReplaceAllString(said, "")
			for _, w := range word.FindAllString(said, -1) {
				have[w]--
				must.True(t, have[w] >= 0 || w == "md", "%s at %d: a %q is missing", topic.Name, width, w)
			}
			for line := range strings.Lines(shown) {
				line = strings.TrimRight(line, "\n")
				must.True(t, term.Columns(line) <= width || strings.HasPrefix(line, "    ") || len(strings.Fields(line)) <= 6 || tabular.MatchString(line), "%s: %d columns of %d: %s", topic.Name, term.Columns(line), width, line)
			}
		}
	}
}

// tabular matches a line of a table, which is as wide as its words if these are long.
var tabular = regexp.MustCompile(`\S  +\S`)

// TestSearch: all words are on one line, ignoring case, below its heading.
func TestSearch(t *testing.T) {
	hits, more := Search("Ways OUT", 1)
	must.True(t, len(hits) != 0 && hits[0].Topic == "hosts" && hits[0].Heading == "Hosts" && strings.Contains(hits[0].Text, "ways out"), "%+v", hits)
	all, none := Search("ways out", 1000)
	must.True(t, none == 0 && len(all) == len(hits)+more, "%d hits and %d more, and %d of all", len(hits), more, len(all))
	hits, _ = Search("nosuchword", 9)
	must.True(t, len(hits) == 0, "%+v", hits)
	hits, _ = Search("  ", 9)
	must.True(t, len(hits) == 0, "blanks find %d", len(hits))
}
