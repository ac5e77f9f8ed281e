//go:build !linux && !freebsd && !darwin

package sockio

import (
	"errors"
	"fmt"
	"runtime"
)

// reusePort has no equivalent on Windows: SO_REUSEADDR there lets any program take the port,
// and which one gets a datagram is undefined.
func reusePort(uintptr) error {
	return fmt.Errorf("share a UDP port on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
