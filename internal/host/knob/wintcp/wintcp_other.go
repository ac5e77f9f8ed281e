//go:build !windows

package wintcp

import (
	"errors"
	"fmt"
	"runtime"
)

func system() (Run, error) {
	return nil, fmt.Errorf("cmdlets of Windows on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
