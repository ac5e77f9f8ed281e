// Package fault is what an error says beside what happened: what kind of fault it is,
// and what to do about it. It lies below all layers, and a fault is made where it is
// seen; only the process entries turn kinds into exit codes.
package fault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Kind says of a fault what is to be done about it, and by whom.
type Kind int

// The closed list of kinds. The command line has one exit code for each.
const (
	ByCause     Kind = iota // what its cause is
	Failed                  // the operation failed; the message says why
	Usage                   // what was asked makes no sense
	Unreachable             // a host could not be reached, or refused
	Unsupported             // this system or these rights cannot do that
	Untrusted               // the session ended, but its result must not be used
	Store                   // results could not be read or kept
	NotUndone               // a host may still hold a changed setting
	Interrupted             // stopped by the user
	Found                   // something is not as it should be
	Unmet                   // a demand is not met
)

// ExitCode is the exit code of a program that fails so: a closed list, which linerate help
// exit-codes prints and docs/manual.md keeps.
func (k Kind) ExitCode() int {
	return map[Kind]int{Failed: 1, Usage: 2, Unreachable: 3, Unsupported: 4, Untrusted: 5, Store: 6, NotUndone: 7, Found: 8, Unmet: 9, Interrupted: 130}[k]
}

// Error is an error with its kind and a hint: what happened, then what to do about it.
type Error struct {
	Kind Kind
	Hint string // "" for none; several lines are several hints
	Err  error
}

// Error says what happened, without the hint.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New gives err a kind and a hint in place of its own; nil stays nil.
func New(k Kind, err error, hint string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: k, Err: err, Hint: fmt.Sprintf(hint, args...)}
}

// Usagef returns a fault of what was asked.
func Usagef(format string, args ...any) error {
	return &Error{Kind: Usage, Err: fmt.Errorf(format, args...)}
}

// WithHint gives err a hint in place of its own, and keeps its kind; nil stays nil.
func WithHint(err error, format string, args ...any) error {
	return New(ByCause, err, format, args...)
}

// WithKind gives err a kind in place of its own, and keeps its hint; nil stays nil.
func WithKind(k Kind, err error) error { return New(k, err, "") }

// Cause returns an error to wrap and to test for. Its kind is that of what wraps it,
// unless that says its own.
func Cause(k Kind, text string) error { return &cause{k, text} }

type cause struct {
	kind Kind
	text string
}

func (c *cause) Error() string { return c.text }

// KindOf returns the kind of an error that is not nil: the first that its tree says, else
// that of its cause.
func KindOf(err error) Kind {
	if e := find(err, func(e *Error) bool { return e.Kind != ByCause }); e != nil {
		return e.Kind
	}
	c, known := errors.AsType[*cause](err)
	switch {
	case errors.Is(err, context.Canceled):
		return Interrupted
	case known:
		return c.kind
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrPermission):
		return Unsupported
	}
	return Failed
}

// HintOf returns the first hint in the tree of an error, "" for none.
func HintOf(err error) string {
	if e := find(err, func(e *Error) bool { return e.Hint != "" }); e != nil {
		return e.Hint
	}
	return ""
}

// Sentence is what err says with its hint.
func Sentence(err error) string {
	if hint := HintOf(err); hint != "" {
		return err.Error() + "; " + hint
	}
	return err.Error()
}

// find returns the first Error in the tree of err that fits; nil for none.
func find(err error, fits func(*Error) bool) *Error {
	for err != nil {
		e, ok := err.(*Error) //nolint:errorlint // the tree is walked here
		if ok && fits(e) {
			return e
		}
		switch u := err.(type) { //nolint:errorlint // the same
		case interface{ Unwrap() error }:
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			for _, one := range u.Unwrap() {
				if e := find(one, fits); e != nil {
					return e
				}
			}
			return nil
		default:
			return nil
		}
	}
	return nil
}
