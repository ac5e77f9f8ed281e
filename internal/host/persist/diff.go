package persist

import (
	"fmt"
	"slices"
	"strings"
)

const (
	diffContext = 3       // unchanged lines around a change, as diff -u has them
	diffCells   = 1 << 20 // of the table that finds the fewest changes; larger ones are shown as one change
)

// Diff returns the change as a unified diff (POSIX diff -u), "" for none. What
// is missing at the end of a last line is said as diff does.
func (c Change) Diff() string {
	if c.Same() {
		return ""
	}
	from := c.Path
	if !c.Exists {
		from = "/dev/null"
	}
	edits := compare(lines(c.Before), lines(c.After))
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", from, c.Path)
	for len(edits) > 0 {
		first := slices.IndexFunc(edits, edit.changes)
		if first < 0 {
			break
		}
		begin, end, quiet := max(0, first-diffContext), first, 0
		for end < len(edits) && quiet <= 2*diffContext {
			quiet++
			if edits[end].changes() {
				quiet = 0
			}
			end++
		}
		end -= max(0, quiet-diffContext)
		writeHunk(&b, edits[begin:end])
		edits = edits[end:]
	}
	return b.String()
}

// edit is one line of either file or of both; old and new are its place, counted
// from 0, where the one that does not have it stands before the next line.
type edit struct {
	sign     byte // ' ', '-' or '+'
	text     string
	old, new int
}

func (e edit) changes() bool { return e.sign != ' ' }

func writeHunk(b *strings.Builder, edits []edit) {
	before, after := 0, 0
	for _, e := range edits {
		if e.sign != '+' {
			before++
		}
		if e.sign != '-' {
			after++
		}
	}
	fmt.Fprintf(b, "@@ -%s +%s @@\n", span(edits[0].old, before), span(edits[0].new, after))
	for _, e := range edits {
		b.WriteByte(e.sign)
		b.WriteString(e.text)
		if !strings.HasSuffix(e.text, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// span is a range of lines as POSIX has it: an empty one names the line before.
func span(at, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", at)
	case 1:
		return fmt.Sprint(at + 1)
	}
	return fmt.Sprintf("%d,%d", at+1, count)
}

func lines(b []byte) []string { return slices.Collect(strings.Lines(string(b))) }

// compare returns the lines of a and b in one order, with as many of both as
// possible, by the longest common subsequence.
func compare(a, b []string) []edit {
	var edits []edit
	i, j := 0, 0
	add := func(sign byte, text string) {
		edits = append(edits, edit{sign, text, i, j})
		if sign != '+' {
			i++
		}
		if sign != '-' {
			j++
		}
	}
	tail := 0
	for tail < min(len(a), len(b)) && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	endA, endB := len(a)-tail, len(b)-tail
	for i < min(endA, endB) && a[i] == b[i] {
		add(' ', a[i])
	}
	longest := common(a[i:endA], b[j:endB])
	baseA, baseB := i, j
	for i < endA || j < endB {
		switch {
		case i < endA && j < endB && a[i] == b[j] && longest != nil:
			add(' ', a[i])
		case i < endA && (j == endB || longest == nil || longest[i-baseA+1][j-baseB] >= longest[i-baseA][j-baseB+1]):
			add('-', a[i])
		default:
			add('+', b[j])
		}
	}
	for i < len(a) {
		add(' ', a[i])
	}
	return edits
}

// common returns how many lines the ends of a and b have in common at most, by
// where they begin; nil where the table would be too large.
func common(a, b []string) [][]int {
	if (len(a)+1)*(len(b)+1) > diffCells {
		return nil
	}
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
	}
	for i, line := range slices.Backward(a) {
		for j := len(b) - 1; j >= 0; j-- {
			table[i][j] = max(table[i+1][j], table[i][j+1])
			if line == b[j] {
				table[i][j] = table[i+1][j+1] + 1
			}
		}
	}
	return table
}
