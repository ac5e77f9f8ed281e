//go:build linux || freebsd || darwin

package peer

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"linerate/internal/measure/sockio"
)

// unread returns how many bytes have arrived and not been read.
func unread(c *net.TCPConn) (int, error) {
	n, err := sockio.OnDescriptor(c, func(fd uintptr) (int, error) { return unix.IoctlGetInt(int(fd), fionread) })
	if err != nil {
		return 0, fmt.Errorf("read receive queue: %w", err)
	}
	return n, nil
}
