//go:build !freebsd && !darwin

package ifioctl

import (
	"errors"
	"fmt"
	"runtime"
)

func system() (abi, kernel, error) {
	return abi{}, nil, fmt.Errorf("interface requests of BSD on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
