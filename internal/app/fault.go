package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"linerate/internal/control/session"
	"linerate/internal/host/durable"
	"linerate/internal/measure/program"
)

// Kind says of a fault what is to be done about it, and by whom.
type Kind int

// The closed list of kinds. The command line has one exit code for each.
const (
	Failed      Kind = iota // the operation failed; the message says why
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

// Fault is an error with its kind and a hint: what happened, then what to do
// about it.
type Fault struct {
	Kind Kind
	Err  error
	Hint string // "" for none; several lines are several hints
}

// Error says what happened, without the hint.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Usagef returns a fault of what was asked.
func Usagef(format string, args ...any) error {
	return &Fault{Kind: Usage, Err: fmt.Errorf(format, args...)}
}

// WithHint gives err a hint in place of its own, and keeps its kind; nil stays nil.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Fault{Kind: KindOf(err), Err: err, Hint: fmt.Sprintf(format, args...)}
}

// WithKind gives err a kind in place of its own, and keeps its hint; nil stays nil.
func WithKind(k Kind, err error) error {
	if err == nil {
		return nil
	}
	return &Fault{Kind: k, Err: err, Hint: HintOf(err)}
}

// KindOf returns the kind of an error that is not nil: that of the first Fault in
// its tree, else what its cause says.
func KindOf(err error) Kind {
	var f *Fault
	var p *program.Problem
	switch {
	case errors.As(err, &f):
		return f.Kind
	case errors.As(err, &p) && p.Reason == program.Asked:
		return Usage
	case errors.As(err, &p) && p.Reason == program.Away:
		return Unreachable
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, session.ErrRefused), errors.Is(err, session.ErrLost), errors.Is(err, session.ErrBusy), errors.Is(err, session.ErrVersion):
		return Unreachable
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrPermission), errors.Is(err, durable.ErrUntrusted):
		return Unsupported
	default:
		return Failed
	}
}

// HintOf returns the hint of an error, "" for none.
func HintOf(err error) string {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Hint
	}
	if u, ok := errors.AsType[*durable.UntrustedError](err); ok {
		return u.Hint()
	}
	if p, ok := errors.AsType[*program.Problem](err); ok {
		return p.Hint
	}
	return ""
}

// Missing is why a host has no value of a knob, in the host's own words, which mostly
// end in those of errors.ErrUnsupported. It is one such.
type Missing string

// Error is what the host says.
func (m Missing) Error() string { return string(m) }

// Is reports whether target is errors.ErrUnsupported.
func (m Missing) Is(target error) bool { return target == errors.ErrUnsupported }

// MayTune demands that settings of a host may be changed in its session, and names what
// cannot be done where they may not.
func MayTune(c *session.Client, what string) error {
	if c.NoSettings() == "" {
		return nil
	}
	return &Fault{Kind: Unsupported, Err: fmt.Errorf("%s on %s: %s", what, c.Name(), c.NoSettings()), Hint: settingsTake}
}

// settingsTake says what it takes to change settings of a host.
const settingsTake = "settings of a host take root there (over ssh: --sudo), or a key with the right tune and serve --allow-tune;\n" +
	"those of the flow (window, mss, streams, block, nodelay) need neither"

// Refused reports whether a host said no: to a session, a run or a file.
func Refused(err error) bool {
	return errors.Is(err, session.ErrRefused) || errors.Is(err, fs.ErrPermission)
}
