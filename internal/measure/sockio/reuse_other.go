//go:build !linux && !freebsd && !darwin

package sockio

import (
	"errors"
	"fmt"
	"runtime"
)

// reusePort has no twin on Windows: SO_REUSEADDR there lets any program take
// the port and says nothing of who gets a datagram.
func reusePort(uintptr) error {
	return fmt.Errorf("share a UDP port on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
