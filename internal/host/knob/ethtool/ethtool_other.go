//go:build !linux

package ethtool

import (
	"errors"
	"fmt"
	"runtime"
)

func open() (transport, error) {
	return nil, fmt.Errorf("settings of a driver on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
