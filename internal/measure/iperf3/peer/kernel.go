//go:build !linux

package peer

import (
	"errors"
	"fmt"
	"net"
	"runtime"
)

// Known on Linux only: see kernel_linux.go.
const deliveryIsFinal = false

func received(*net.TCPConn) (int64, error) { return 0, unsupported("received bytes") }
func ended(*net.TCPConn) (bool, error)     { return false, unsupported("connection state") }
func pace(*net.TCPConn, uint64) error      { return unsupported("pacing of TCP by the kernel") }

func unsupported(what string) error {
	return fmt.Errorf("%s on %s: %w", what, runtime.GOOS, errors.ErrUnsupported)
}
