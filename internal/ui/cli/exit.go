package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"linerate/internal/control/session"
	"linerate/internal/host/durable"
	"linerate/internal/store"
	"linerate/internal/ui/config"
)

// The exit codes of linerate: a closed list, printed by `linerate help
// exit-codes` and kept in docs/manual.md.
const (
	exitOK          = 0   // done
	exitFailed      = 1   // the operation failed; the message says why
	exitUsage       = 2   // wrong flags, arguments, plan file or lab specification
	exitUnreachable = 3   // a host could not be reached, or refused
	exitUnsupported = 4   // this system or these rights cannot do that
	exitUntrusted   = 5   // the session ended, but its result must not be used
	exitStore       = 6   // results could not be read or kept
	exitNotUndone   = 7   // a host may still hold a changed setting: see linerate undo
	exitInterrupted = 130 // stopped by the user: what was changed goes back, data is kept, a run may be resumed
)

const exitText = `  0    done
  1    the operation failed; the message says why
  2    wrong flags, arguments, plan file or lab specification
  3    a host could not be reached, or refused
  4    this system or these rights cannot do that
  5    the session ended, but its result must not be used
  6    results could not be read or kept
  7    a host may still hold a changed setting: see linerate undo
  130  stopped by the user: what was changed goes back, data is kept, a run may be resumed
`

// fault is an error with an exit code and a hint: what happened, then what to
// do about it.
type fault struct {
	code int
	err  error
	hint string
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// usagef returns a fault of the user's input.
func usagef(format string, args ...any) error {
	return &fault{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// withHint gives err a hint, keeping its exit code.
func withHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &fault{code: exitCode(err), err: err, hint: fmt.Sprintf(format, args...)}
}

// withCode gives err an exit code.
func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &fault{code: code, err: err, hint: hintOf(err)}
}

// exitCode is the one place that turns an error into an exit code.
func exitCode(err error) int {
	var f *fault
	var problems config.Errors
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &f):
		return f.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &problems):
		return exitUsage
	case errors.Is(err, session.ErrRefused), errors.Is(err, session.ErrLost), errors.Is(err, session.ErrBusy), errors.Is(err, session.ErrVersion):
		return exitUnreachable
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrFull), errors.Is(err, store.ErrNewer), errors.Is(err, store.ErrForeign):
		return exitStore
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, fs.ErrPermission), errors.Is(err, durable.ErrUntrusted):
		return exitUnsupported
	default:
		return exitFailed
	}
}

func hintOf(err error) string {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.hint
	}
	if u, ok := errors.AsType[*durable.UntrustedError](err); ok {
		return u.Hint()
	}
	return ""
}
