//go:build !linux && !darwin && !freebsd

package tcpinfo

import (
	"errors"
	"fmt"
	"runtime"
)

func read(uintptr) (Info, error) {
	return Info{}, fmt.Errorf("read tcp_info on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func congestion(uintptr) (string, error) {
	return "", fmt.Errorf("read congestion control of a socket on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
