package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Problem is one mistake of a plan file, or of a flag with the same content.
type Problem struct {
	File    string // "" for a flag
	Line    int    // from 1; 0 if not in a file
	Column  int    // from 1
	Path    string // "factors[0].levels[2]"
	Message string // what is wrong
	Hint    string // what would be right; may be empty
}

// String returns the problem on one line:
// "plan.yaml:12:3: factors[0].knob: unknown knob "link.mtuu"; did you mean link.mtu?".
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		fmt.Fprintf(&b, "%s:", p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
		}
		b.WriteByte(' ')
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Errors are all the mistakes of a plan file, in the order of the text.
type Errors []Problem

// Error returns one problem per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the kind of fault.
func (Errors) Unwrap() error { return errPlan }

var errPlan = fault.Cause(fault.Usage, "a plan file that cannot be")

// sorted returns e in the order of the text as an error, nil if e is empty.
func (e Errors) sorted() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return e
}

// position is a place in a file.
type position struct{ line, column int }

// report collects problems and knows the positions of a file's values.
type report struct {
	file     string
	at       map[string]position
	flags    map[string]string
	problems Errors
}

// fault adds a problem at path, or at the nearest enclosing position in the file.
func (r *report) fault(path, hint, format string, args ...any) {
	r.faultAt(r.locate(path), path, hint, format, args...)
}

func (r *report) faultAt(at position, path, hint, format string, args ...any) {
	r.problems = append(r.problems, Problem{
		File: r.file, Line: at.line, Column: at.column, Path: cmp.Or(r.flags[path], path),
		Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

func (r *report) locate(path string) position {
	for {
		if at, ok := r.at[path]; ok {
			return at
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return position{}
		}
		path = path[:i]
	}
}

// bad returns the error of an invalid value, with a hint.
func bad(message, hint string) error { return fault.New(fault.Usage, errors.New(message), "%s", hint) }

// badValue adds err, which describes the mistake in the value at path.
func (r *report) badValue(path string, err error) {
	unit, plain := err.(*units.ParseError) //nolint:errorlint // a wrapped one has more to say than its parts
	if plain {
		r.fault(path, "write it like "+unit.Example, "%s %s %s", unit.Quantity, quote(unit.Input), unit.Problem)
		return
	}
	r.fault(path, fault.HintOf(err), "%s", err)
}

// quote returns s in quotes, cut to fit in a message.
func quote(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// didYouMean returns a hint with the word nearest to unknown, or the whole list if nothing is
// near and the list is short.
func didYouMean(unknown string, known []string) string {
	best := plain.Nearest(unknown, known)
	if best != "" {
		return "did you mean " + best + "?"
	}
	if len(known) <= 12 {
		return "known are " + strings.Join(known, ", ")
	}
	return ""
}
