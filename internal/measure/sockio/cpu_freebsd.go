package sockio

import (
	"errors"
	"fmt"
	"time"
)

// rusageThread is RUSAGE_THREAD of sys/resource.h, FreeBSD 8.1 and later.
const rusageThread = 1

func threadCPU() (CPUTime, error) { return usage("thread", rusageThread) }

func systemCPU() (time.Duration, error) {
	return 0, fmt.Errorf("read busy time of the machine on freebsd: %w", errors.ErrUnsupported)
}
