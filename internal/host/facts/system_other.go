//go:build !linux && !freebsd && !darwin && !windows

package facts

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

func readNICs(context.Context, *knob.Index, string) ([]model.NIC, error) {
	return nil, fmt.Errorf("list interfaces on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func readMachine(context.Context) model.Machine {
	why := "not available on " + runtime.GOOS
	s, n := fact.Unknown[string](why), fact.Unknown[int](why)
	return model.Machine{Vendor: s, Product: s, Virtual: s, CPU: s, Sockets: n, Cores: n, Threads: n, NUMA: n, Memory: fact.Unknown[units.Bytes](why)}
}

func lookUpRoute(context.Context, netip.Addr) (gateway string, mtu int, err error) {
	return "", 0, fmt.Errorf("routes on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
