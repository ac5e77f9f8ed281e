//go:build !linux && !freebsd && !darwin && !windows

package hops

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

const sourcePorts = 1

func open(context.Context, Config) (socket, error) {
	return nil, fmt.Errorf("trace the routers on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
