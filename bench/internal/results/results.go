// Package results combines the sections of the benchmarks into one Markdown document, and keeps
// sections that were not measured again.
//
// A document is a head, a summary table, and one section per claim, whose
// heading is "## NAME: TITLE". Sections with other headings stay as they are.
package results

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Verdict is one row of the summary.
type Verdict struct {
	Claim  string // name of the section
	What   string
	Bar    string
	Result string
	Word   string // "met", "missed by 3 %", or why it is not judged
}

// Bars returns what makes the verdicts of a claim about its bars.
func Bars(claim string) func(what, bar, result string, met bool) Verdict {
	return func(what, bar, result string, met bool) Verdict {
		word := "met"
		if !met {
			word = "missed"
		}
		return Verdict{claim, what, bar, result, word}
	}
}

// Section is the result of one claim.
type Section struct {
	Name     string // of the claim, without colon or space
	Title    string
	Body     string // Markdown below the heading
	Verdicts []Verdict
}

// Document is a parsed document.
type Document struct {
	head     string
	verdicts []Verdict
	parts    []part // without the summary
}

type part struct {
	name string // "" for a section that is not a claim's
	text string // heading included
}

const (
	summaryHeading = "## Summary"
	tableHead      = "| claim | what | bar | result | verdict |\n|---|---|---|---|---|\n"
)

// Read reads the document at path; without a file the result is empty.
func Read(path string) (*Document, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return Parse(string(text)), nil
}

// Keep writes a section to the document at path, replacing the old one; if path is "" it prints
// the section.
func (s Section) Keep(path string) error {
	if path == "" {
		fmt.Println(s.Body)
		for _, v := range s.Verdicts {
			fmt.Printf("%s: %s, bar %s: %s\n", v.What, v.Result, v.Bar, v.Word)
		}
		return nil
	}
	d, err := Read(path)
	if err != nil {
		return err
	}
	d.Replace(s)
	return os.WriteFile(path, []byte(d.Render("", nil)), 0o644)
}

// Parse parses a document; empty text gives the document of New.
func Parse(text string) *Document {
	d := &Document{}
	var b strings.Builder
	heading, inHead := "", true
	end := func() {
		switch text := b.String(); {
		case inHead:
			d.head = strings.TrimSpace(text)
		case heading == summaryHeading:
			d.verdicts = parseTable(text)
		default:
			d.parts = append(d.parts, part{nameOf(heading), strings.TrimSpace(text)})
		}
		b.Reset()
	}
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if strings.HasPrefix(line, "## ") && strings.TrimSpace(line) != "##" && !fenced {
			end()
			heading, inHead = strings.TrimSpace(line), false
		}
		b.WriteString(line)
	}
	end()
	return d
}

// nameOf returns the claim of a heading, "" for other headings.
func nameOf(heading string) string {
	name, _, found := strings.Cut(strings.TrimPrefix(heading, "## "), ":")
	if !found || strings.ContainsAny(name, " \t") {
		return ""
	}
	return name
}

// parseTable parses the rows of a summary, and drops other lines.
func parseTable(text string) []Verdict {
	var out []Verdict
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 7 || strings.HasPrefix(cells[1], "---") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[1] != "claim" {
			out = append(out, Verdict{cells[1], cells[2], cells[3], cells[4], cells[5]})
		}
	}
	return out
}

// Replace puts s into the document: in place of the section of that name, or at the end. Its
// verdicts replace those of the same claim.
func (d *Document) Replace(s Section) {
	p := part{s.Name, fmt.Sprintf("## %s: %s\n\n%s", s.Name, s.Title, strings.TrimSpace(s.Body))}
	if i := slices.IndexFunc(d.parts, func(o part) bool { return o.name == s.Name }); i >= 0 {
		d.parts[i] = p
	} else {
		d.parts = append(d.parts, p)
	}
	d.verdicts = slices.DeleteFunc(d.verdicts, func(v Verdict) bool { return v.Claim == s.Name })
	d.verdicts = append(d.verdicts, s.Verdicts...)
}

// Render returns the document with head in place of its own, and the claims in the given order,
// followed by the other claims, then the other sections.
func (d *Document) Render(head string, order []string) string {
	if head == "" {
		head = d.head
	}
	rank := func(name string) int {
		switch i := slices.Index(order, name); {
		case i >= 0:
			return i
		case name != "":
			return len(order)
		default:
			return len(order) + 1
		}
	}
	parts, verdicts := slices.Clone(d.parts), slices.Clone(d.verdicts)
	slices.SortStableFunc(parts, func(a, b part) int { return rank(a.name) - rank(b.name) })
	slices.SortStableFunc(verdicts, func(a, b Verdict) int { return rank(a.Claim) - rank(b.Claim) })
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(head))
	if len(verdicts) > 0 {
		fmt.Fprintf(&b, "%s\n\n%s", summaryHeading, tableHead)
		for _, v := range verdicts {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(v.Claim), cell(v.What), cell(v.Bar), cell(v.Result), cell(v.Word))
		}
		b.WriteString("\n")
	}
	for _, p := range parts {
		fmt.Fprintf(&b, "%s\n\n", p.text)
	}
	return strings.TrimSpace(b.String()) + "\n"
}

// cell escapes text for a table cell.
func cell(text string) string { return strings.NewReplacer("|", "/", "\n", " ").Replace(text) }
