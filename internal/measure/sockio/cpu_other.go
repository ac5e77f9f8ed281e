//go:build !linux && !freebsd && !darwin && !windows

package sockio

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

func processCPU() (CPUTime, error) {
	return CPUTime{}, fmt.Errorf("read cpu time of process on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func threadCPU() (CPUTime, error) {
	return CPUTime{}, fmt.Errorf("read cpu time of a thread on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func systemCPU() (time.Duration, error) {
	return 0, fmt.Errorf("read busy time of the machine on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
