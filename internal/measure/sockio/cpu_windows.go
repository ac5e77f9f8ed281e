package sockio

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// fileTimeUnit is the step of a FILETIME (minwinbase.h).
const fileTimeUnit = 100 * time.Nanosecond

func processCPU() (CPUTime, error) {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return CPUTime{}, fmt.Errorf("read cpu time of process: %w", err)
	}
	var created, exited, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(self, &created, &exited, &kernel, &user); err != nil {
		return CPUTime{}, fmt.Errorf("read cpu time of process: %w", err)
	}
	return CPUTime{User: span(user), System: span(kernel)}, nil
}

// span converts a FILETIME that holds a duration. Filetime.Nanoseconds is unsuitable: it counts
// from 1970.
func span(t syscall.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * fileTimeUnit
}

func threadCPU() (CPUTime, error) {
	return CPUTime{}, fmt.Errorf("read cpu time of a thread on windows: %w", errors.ErrUnsupported)
}

func systemCPU() (time.Duration, error) {
	return 0, fmt.Errorf("read busy time of the machine on windows: %w", errors.ErrUnsupported)
}
