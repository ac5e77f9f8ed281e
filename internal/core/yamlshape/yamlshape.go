// Package yamlshape checks a YAML text before parsing: whether it is small and flat enough for
// a parser.
//
// A parser makes a tree, and its time and memory grow with the nesting and with the square of
// the number of tokens: 64 KiB of "- - - " cost one gigabyte and a half, and four seconds. The
// check is one pass without allocation. It does not interpret quotes, comments and literal
// blocks; so its limits are far above real files, and only stop hostile ones.
package yamlshape

import (
	"fmt"
	"unicode/utf8"
)

// Limits of a text.
const (
	MaxBytes    = 64 << 10 // of the text
	MaxLines    = 4000     // of the text
	MaxBrackets = 32       // open at the same time
	MaxIndent   = 256      // columns before the first word of a line: blanks, and dashes before it
	MaxDashes   = 64       // in one line, each of which may begin a list in a list, or a key in a key
	MaxMarks    = 16 << 10 // characters with a meaning in YAML: brackets, commas, colons, quotes and the like
)

// Fault is the first reason not to parse a text.
type Fault struct {
	Line, Column int // 1 and up
	Reason       string
}

// Check returns nil for a text that may be parsed: UTF-8 within all limits.
func Check(text []byte) *Fault {
	if len(text) > MaxBytes {
		return &Fault{1, 1, fmt.Sprintf("the file has %d bytes, which is more than %d", len(text), MaxBytes)}
	}
	s := scan{line: 1, begin: true, blank: true}
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRune(text[i:])
		i += size
		s.column++
		if c == utf8.RuneError && size == 1 {
			return s.fault("the file is not UTF-8 text")
		}
		if c == '\n' || c == '\r' && (i == len(text) || text[i] != '\n') { // YAML 1.2.2 section 5.4
			s = scan{line: s.line + 1, brackets: s.brackets, marks: s.marks, begin: true, blank: true}
			if s.line > MaxLines && i < len(text) {
				s.column = 1
				return s.fault(fmt.Sprintf("the file has more than %d lines", MaxLines))
			}
			continue
		}
		if reason := s.take(c, i == len(text) || isBlank(rune(text[i]))); reason != "" {
			return s.fault(reason)
		}
	}
	return nil
}

// scan is the state of the check.
type scan struct {
	line, column    int
	brackets, marks int  // open ones; all so far
	dashes, indent  int  // of this line
	begin, blank    bool // only indentation so far in this line; the last character was a blank
}

func (s *scan) fault(reason string) *Fault { return &Fault{s.line, s.column, reason} }

func isBlank(c rune) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// take processes a character, and returns the limit that it exceeds. last says that a word ends
// with it.
func (s *scan) take(c rune, last bool) string {
	switch c {
	case '[', '{':
		s.brackets++
	case ']', '}':
		s.brackets = max(0, s.brackets-1)
	case '-', '?', ':':
		if s.blank && last {
			s.dashes++
		}
	}
	switch c {
	case '[', ']', '{', '}', ',', ':', '?', '-', '&', '*', '!', '"', '\'', '#', '|', '>', '%':
		s.marks++
	}
	s.begin = s.begin && (isBlank(c) || c == '-' || c == '?' || c == ':')
	s.blank = isBlank(c)
	if s.begin {
		s.indent++
	}
	switch {
	case s.brackets > MaxBrackets:
		return fmt.Sprintf("more than %d brackets are open", MaxBrackets)
	case s.dashes > MaxDashes:
		return fmt.Sprintf("more than %d dashes or question marks stand in one line", MaxDashes)
	case s.indent > MaxIndent:
		return fmt.Sprintf("a line is indented by more than %d columns", MaxIndent)
	case s.marks > MaxMarks:
		return fmt.Sprintf("the file holds more than %d of the characters that mean something to YAML", MaxMarks)
	}
	return ""
}
