package files

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// The first and last line of linerate's block in a shared file.
const (
	BlockBegin = "# BEGIN linerate"
	BlockEnd   = "# END linerate"
)

// maxComment bounds a comment line, in characters.
const maxComment = 300

// Comment makes any text safe in a comment of every format: one line, no control characters,
// nothing that a template engine or a line continuation would act on.
func Comment(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
	if r := []rune(s); len(r) > maxComment {
		s = string(r[:maxComment]) + "…"
	}
	for _, open := range []string{"{{", "{%", "{#"} { // of Jinja, which Ansible runs over texts
		for strings.Contains(s, open) {
			s = strings.ReplaceAll(s, open, open[:1]+" "+open[1:])
		}
	}
	s = strings.TrimSpace(s)
	if strings.HasSuffix(s, `\`) { // it continues the line in unit files and elsewhere
		s += "."
	}
	return s
}

// Comments returns the lines of a comment that starts with a number sign.
func Comments(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("# " + l + "\n")
	}
	return b.String()
}

// Merge puts a block into text: in place of the block there, or at the end.
func Merge(text, block []byte) ([]byte, error) {
	head, _, tail, err := Split(text)
	if err != nil {
		return nil, err
	}
	if len(head) > 0 && !bytes.HasSuffix(head, []byte("\n")) {
		head = append(slices.Clone(head), '\n')
	}
	return slices.Concat(head, block, tail), nil
}

// Split splits text at its block; inner, including the marks, is empty if there is none.
func Split(text []byte) (head, inner, tail []byte, err error) {
	begin, end := -1, -1
	at := 0
	for line := range bytes.Lines(text) {
		switch strings.TrimRight(string(line), "\r\n") {
		case BlockBegin:
			if begin >= 0 {
				return nil, nil, nil, fmt.Errorf("two lines say %q", BlockBegin)
			}
			begin = at
		case BlockEnd:
			if begin < 0 || end >= 0 {
				return nil, nil, nil, fmt.Errorf("a line %q has no beginning", BlockEnd)
			}
			end = at + len(line)
		}
		at += len(line)
	}
	switch {
	case begin < 0:
		return text, nil, nil, nil
	case end < 0:
		return nil, nil, nil, fmt.Errorf("the line %q has no end", BlockBegin)
	}
	return text[:begin], text[begin:end], text[end:], nil
}
