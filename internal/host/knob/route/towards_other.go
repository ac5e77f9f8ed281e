//go:build !linux

package route

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
)

func towards(netip.Addr) (destination, device string, err error) {
	return "", "", fmt.Errorf("routes on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
