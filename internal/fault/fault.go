// Package fault adds to an error the kind of fault and a hint what to do about it. It lies
// below all layers, and a fault is created where it is detected; only the process entry points
// convert kinds to exit codes.
package fault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Kind classifies a fault by what to do about it, and who must do it.
type Kind int

// The closed list of kinds. The command line has one exit code for each.
const (
	ByCause     Kind = iota // the kind of its cause
	Failed                  // the operation failed; the message says why
	Usage                   // the request is invalid
	Unreachable             // a host could not be reached, or refused
	Unsupported             // this system, or this user's rights, do not allow it
	Untrusted               // the session ended, but its result must not be used
	Store                   // results could not be read or stored
	NotUndone               // a host may still hold a changed setting
	Interrupted             // stopped by the user
	Found                   // a check found a problem
	Unmet                   // a requirement is not met
)

// ExitCode returns the exit code of a program that fails with this kind: a closed list, which
// linerate help exit-codes prints and docs/manual.md documents.
func (k Kind) ExitCode() int {
	return map[Kind]int{Failed: 1, Usage: 2, Unreachable: 3, Unsupported: 4, Untrusted: 5, Store: 6, NotUndone: 7, Found: 8, Unmet: 9, Interrupted: 130}[k]
}

// Error is an error with its kind and a hint: what happened, then what to do.
type Error struct {
	Kind Kind
	Hint string // "" if none; several lines are several hints
	Err  error
}

// Error returns what happened, without the hint.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New replaces err's kind and hint; a nil err stays nil.
func New(k Kind, err error, hint string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: k, Err: err, Hint: fmt.Sprintf(hint, args...)}
}

// Usagef returns a fault of kind Usage.
func Usagef(format string, args ...any) error {
	return &Error{Kind: Usage, Err: fmt.Errorf(format, args...)}
}

// WithHint replaces err's hint, and keeps its kind; a nil err stays nil.
func WithHint(err error, format string, args ...any) error {
	return New(ByCause, err, format, args...)
}

// WithKind replaces err's kind, and keeps its hint; a nil err stays nil.
func WithKind(k Kind, err error) error { return New(k, err, "") }

// Cause returns an error to wrap and to test for. An error that wraps it has its kind, unless
// it has its own.
func Cause(k Kind, text string) error { return &cause{k, text} }

type cause struct {
	kind Kind
	text string
}

func (c *cause) Error() string { return c.text }

// KindOf returns the kind of a non-nil error: the first in its tree, else that of its cause.
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

// HintOf returns the first hint in the tree of an error, "" if none.
func HintOf(err error) string {
	if e := find(err, func(e *Error) bool { return e.Hint != "" }); e != nil {
		return e.Hint
	}
	return ""
}

// Sentence returns err's text with its hint.
func Sentence(err error) string {
	if hint := HintOf(err); hint != "" {
		return err.Error() + "; " + hint
	}
	return err.Error()
}

// find returns the first Error in the tree of err for which fits returns true, or nil.
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
