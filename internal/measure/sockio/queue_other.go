//go:build !linux && !freebsd && !darwin

package sockio

import (
	"errors"
	"fmt"
	"runtime"
)

func unacknowledged(uintptr) (int, error) {
	return 0, fmt.Errorf("not on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func limitUnsent(uintptr, int) error { return nil }
