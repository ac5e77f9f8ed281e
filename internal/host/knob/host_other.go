//go:build !linux && !freebsd && !darwin && !windows

package knob

import (
	"errors"
	"fmt"
	"runtime"
)

func open(_ Host, p Place) (Backend, error) {
	return nil, fmt.Errorf("%s on %s: %w", p, runtime.GOOS, errors.ErrUnsupported)
}
