//go:build freebsd || darwin

package peer

import (
	"errors"
	"fmt"
	"net"
	"runtime"

	"linerate/internal/measure/sockio"

	"golang.org/x/sys/unix"
)

// deliveryIsFinal: see delivered.
const deliveryIsFinal = false

// fionread is FIONREAD of sys/filio.h: bytes in the receive buffer.
const fionread = 0x4004667f

func kernelUnread(c *net.TCPConn) (int, error) {
	n := 0
	err := reach(c, func(fd uintptr) (err error) {
		n, err = unix.IoctlGetInt(int(fd), fionread)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read receive queue: %w", err)
	}
	return n, nil
}

func kernelDelivered(c *net.TCPConn) (bool, error) {
	n, err := sockio.Unacknowledged(c)
	return err == nil && n == 0, err
}

func kernelReceived(*net.TCPConn) (int64, error) { return 0, unsupported("received bytes") }
func kernelEnded(*net.TCPConn) (bool, error)     { return false, unsupported("connection state") }
func kernelPace(*net.TCPConn, uint64) error      { return unsupported("pacing of TCP by the kernel") }

func unsupported(what string) error {
	return fmt.Errorf("%s on %s: %w", what, runtime.GOOS, errors.ErrUnsupported)
}
