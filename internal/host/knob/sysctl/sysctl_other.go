//go:build !linux && !freebsd && !darwin

package sysctl

import (
	"errors"
	"fmt"
	"runtime"
)

func openSystem(name string) (Key, error) {
	return nil, fmt.Errorf("sysctl %q on %s: %w", name, runtime.GOOS, errors.ErrUnsupported)
}
