//go:build !linux && !freebsd && !darwin && !windows

package sockio

import (
	"errors"
	"fmt"
	"runtime"

	"linerate/internal/measure/engine"
)

const bufferFactor = 1

func bufferLimit(string) string { return "the system" }

func set(uintptr, engine.SocketOptions) error {
	return fmt.Errorf("set socket options on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func get(uintptr) (Granted, error) {
	return Granted{}, fmt.Errorf("read socket options on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
