//go:build !freebsd

package kenv

import (
	"errors"
	"fmt"
	"runtime"
)

// Get returns errors.ErrUnsupported: there is no such environment.
func Get(name string) (string, error) {
	return "", fmt.Errorf("kenv %q on %s: %w", name, runtime.GOOS, errors.ErrUnsupported)
}
