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

func readSubflows(uintptr, []Subflow) ([]Subflow, error) {
	return nil, fmt.Errorf("read subflows on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
