package durable

import (
	"errors"
	"fmt"
	"os"
)

// ErrUntrusted says that another user could replace what lies in a directory.
var ErrUntrusted = errors.New("others could replace what lies there")

// UntrustedError names the directory and says why. It wraps ErrUntrusted.
type UntrustedError struct {
	Dir    string // as it was asked for
	Reason string // "/home/ann belongs to another user (uid 1000)"
}

// Error is one sentence.
func (e *UntrustedError) Error() string {
	return fmt.Sprintf("directory %s: %s: %v", e.Dir, e.Reason, ErrUntrusted)
}

// Unwrap returns ErrUntrusted.
func (e *UntrustedError) Unwrap() error { return ErrUntrusted }

// Hint says what a person could do.
func (e *UntrustedError) Hint() string {
	return "root keeps its state only where nobody else may write: leave out --state and LINERATE_STATE for root's own directory, or name one below it"
}

// Trusted fails where this process is root's and another user could replace what
// lies in dir, and so have root undo, remove or run what that user has written.
// It wraps ErrUntrusted then. Other users may have their state where they like.
// A directory that is not there is trusted as far as what would hold it is: check
// again when it was made.
func Trusted(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return Private(dir)
}

// Private fails where another user than root and this one could replace what lies
// in dir: by writing to it, to a directory above it, or to one through which its
// symbolic links lead. It wraps ErrUntrusted then. Windows leaves the rights on
// directories to their owners, and is always content.
func Private(dir string) error { return private(dir) }
