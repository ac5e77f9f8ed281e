//go:build !linux

package route

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
)

func (m *Metric) unsupported() error {
	return fmt.Errorf("metric %s of a route on %s: %w", m.name, runtime.GOOS, errors.ErrUnsupported)
}

func (m *Metric) find() ([]byte, error) { return nil, m.unsupported() }

func (m *Metric) replace([]byte) error { return m.unsupported() }

func towards(netip.Addr) (destination, device string, err error) {
	return "", "", fmt.Errorf("routes on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
