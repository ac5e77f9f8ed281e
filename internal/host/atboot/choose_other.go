//go:build !linux && !freebsd && !darwin && !windows

package atboot

import (
	"errors"
	"fmt"
	"runtime"
)

func system(Keeper) (job, error) {
	return job{}, fmt.Errorf("linerate knows no job at the start of %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
