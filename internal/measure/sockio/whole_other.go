//go:build !linux && !freebsd && !darwin && !windows

package sockio

import (
	"errors"
	"fmt"
	"runtime"
)

func uncut(uintptr, bool) error {
	return fmt.Errorf("keep packets whole on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
