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
)

func readNICs(context.Context, *knob.Index, string) ([]model.NIC, error) {
	return nil, fmt.Errorf("list interfaces on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func readMachine(context.Context) model.Machine {
	var m model.Machine
	fact.Explain(&m, "not available on "+runtime.GOOS)
	return m
}

func lookUpRoute(context.Context, netip.Addr) (gateway string, mtu int, err error) {
	return "", 0, fmt.Errorf("routes on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
