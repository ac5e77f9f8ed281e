package knob

import (
	"errors"
	"fmt"
	"io/fs"

	"linerate/internal/core/model"
)

// Error says what could not be done with a knob, and what to do about it.
type Error struct {
	Op    string // "read", "write", "check", "find"
	Knob  model.KnobID
	Place string // "net.ipv4.tcp_rmem", "" when there is none
	Err   error
}

// Error returns the sentence without the hint.
func (e *Error) Error() string {
	if e.Place == "" {
		return fmt.Sprintf("%s %s: %v", e.Op, e.Knob, e.Err)
	}
	return fmt.Sprintf("%s %s (%s): %v", e.Op, e.Knob, e.Place, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns what a person could do, "" when there is nothing to say.
func (e *Error) Hint() string {
	switch {
	case errors.Is(e.Err, fs.ErrPermission):
		return fmt.Sprintf("run linerate as root on that host, or leave out %s", e.Knob)
	case errors.Is(e.Err, errors.ErrUnsupported):
		return fmt.Sprintf("leave out %s on that host", e.Knob)
	case errors.Is(e.Err, fs.ErrNotExist):
		return "the device is gone: nothing is left to set or to undo there"
	}
	return ""
}

// Hint returns the hint of the first error in err's tree that has one, else "".
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
