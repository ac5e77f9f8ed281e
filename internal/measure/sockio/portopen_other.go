//go:build !linux

package sockio

import (
	"errors"
	"fmt"
	"runtime"
)

func unseen(uintptr) error {
	return fmt.Errorf("%s completes the handshake at once: %w", runtime.GOOS, errors.ErrUnsupported)
}
