//go:build !linux

package purge

import (
	"errors"
	"fmt"
	"runtime"
)

func tcpMetrics() error {
	return fmt.Errorf("purge what TCP remembers on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
