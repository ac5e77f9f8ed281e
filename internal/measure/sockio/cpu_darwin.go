package sockio

import (
	"errors"
	"fmt"
	"time"
)

func threadCPU() (CPUTime, error) {
	return CPUTime{}, fmt.Errorf("read cpu time of a thread on darwin: %w", errors.ErrUnsupported)
}

func systemCPU() (time.Duration, error) {
	return 0, fmt.Errorf("read busy time of the machine on darwin, which needs host_processor_info: %w", errors.ErrUnsupported)
}
