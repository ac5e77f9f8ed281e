// Package manual is the manual in the terminal: the texts that are built into the program,
// found by topic and by words in them, and formatted for a terminal.
package manual

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"

	"linerate/docs"
)

// Topic is one text of the manual.
type Topic struct {
	Name  string `json:"name"` // manual, wire/iperf3
	Title string `json:"title"`
	Text  string `json:"text,omitempty"` // Markdown; "" in a list
}

// Hit is a line of a text that contains the words of a search.
type Hit struct {
	Topic   string `json:"topic"`
	Heading string `json:"heading"` // above the line
	Line    int    `json:"line"`    // of the text, from 1
	Text    string `json:"text"`    // without markup
}

// first are the topics for newcomers, in order.
var first = [...]string{"start", "manual", "hosts", "measure", "mesh", "watch", "hub", "find-the-limit", "locate", "tune", "settings", "permanent", "experiments", "servers", "results"}

// Topics returns all topics without their text: first those for newcomers, then the others by
// name, those in folders last.
func Topics() []Topic {
	var all []Topic
	_ = fs.WalkDir(docs.Texts, ".", func(file string, d fs.DirEntry, err error) error { // files in memory, which cannot fail
		if err == nil && !d.IsDir() {
			t := read(strings.TrimSuffix(file, ".md"))
			all = append(all, Topic{Name: t.Name, Title: t.Title})
		}
		return err
	})
	place := func(t Topic) string {
		i := slices.Index(first[:], t.Name)
		if i < 0 {
			i = len(first)
		}
		return fmt.Sprintf("%02d %d %s", i, strings.Count(t.Name, "/"), t.Name)
	}
	slices.SortFunc(all, func(a, b Topic) int { return strings.Compare(place(a), place(b)) })
	return all
}

// Find returns the text of a topic, by its name, the last part of that, or its file name. It
// reports whether there is one.
func Find(name string) (Topic, bool) {
	name = strings.TrimPrefix(strings.TrimSuffix(strings.ToLower(name), ".md"), "docs/")
	for _, t := range Topics() {
		if t.Name == name || strings.HasSuffix(t.Name, "/"+name) {
			return read(t.Name), true
		}
	}
	return Topic{}, false
}

// read reads a text that exists.
func read(name string) Topic {
	b, _ := docs.Texts.ReadFile(name + ".md")
	t := Topic{Name: name, Title: name, Text: string(b)}
	for line := range strings.Lines(t.Text) {
		if head, ok := strings.CutPrefix(line, "# "); ok {
			t.Title = unmarked(head)
			break
		}
	}
	return t
}

// Search returns the lines that contain all words, ignoring case, at most most per topic; more
// says how many were left out.
func Search(text string, most int) (hits []Hit, more int) {
	words := strings.Fields(strings.ToLower(text))
	for _, topic := range Topics() {
		found, heading, fenced := 0, topic.Title, false
		number := 0
		for line := range strings.Lines(read(topic.Name).Text) {
			number++
			fenced = fenced != strings.HasPrefix(strings.TrimSpace(line), "```")
			if head := strings.TrimLeft(line, "#"); head != line && strings.HasPrefix(head, " ") && !fenced {
				heading = unmarked(head)
			}
			plain := unmarked(line)
			low := strings.ToLower(plain)
			if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(low, w) }) {
				continue
			}
			if found++; found > most {
				more++
				continue
			}
			hits = append(hits, Hit{topic.Name, heading, number, plain})
		}
	}
	return hits, more
}

// unmarked returns a line without Markdown.
func unmarked(line string) string {
	line = strings.TrimLeftFunc(line, func(r rune) bool { return unicode.IsSpace(r) || r == '#' })
	line = strings.NewReplacer("`", "", "**", "").Replace(links(line, func(text, _ string) string { return text }))
	return strings.TrimSpace(strings.Trim(strings.TrimSpace(line), "|"))
}
