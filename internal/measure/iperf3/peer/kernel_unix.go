//go:build linux || freebsd || darwin

package peer

import (
	"errors"
	"fmt"
	"net"

	"linerate/internal/measure/sockio"

	"golang.org/x/sys/unix"
)

// unread is how many bytes have come and not been read.
func unread(c *net.TCPConn) (n int, err error) {
	failed := sockio.OnDescriptor(c, func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), fionread) })
	if err = errors.Join(failed, err); err != nil {
		return 0, fmt.Errorf("read receive queue: %w", err)
	}
	return n, nil
}
