//go:build !linux

package tcpinfo

import (
	"errors"
	"fmt"
	"runtime"
)

func readBBR(uintptr) (BBR, error) {
	return BBR{}, fmt.Errorf("read the model of bbr on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
