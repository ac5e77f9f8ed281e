package sockio

import (
	"errors"
	"fmt"
	"net"
	"runtime"
)

// Unacknowledged returns how many bytes written to c the peer has not acknowledged; a sent FIN
// counts as one byte. The error wraps errors.ErrUnsupported if the system does not report it.
func Unacknowledged(c *net.TCPConn) (int, error) {
	n, err := OnDescriptor(c, unacknowledged)
	if err != nil {
		return 0, fmt.Errorf("read send queue: %w", err)
	}
	return n, nil
}

// LimitUnsent limits the unsent data in the send buffer of c to about n bytes. On systems other
// than Linux it does nothing.
func LimitUnsent(c *net.TCPConn, n int) error {
	return WithDescriptor(c, func(fd uintptr) error { return limitUnsent(fd, n) })
}

// Twin returns a second descriptor of c, which outlives the first one and has deadlines of its
// own. On a system that has none (Windows) it returns c itself.
func Twin(c *net.TCPConn) (*net.TCPConn, error) {
	if runtime.GOOS == "windows" {
		return c, nil
	}
	f, err := c.File()
	if err != nil {
		return nil, fmt.Errorf("duplicate socket: %w", err)
	}
	again, err := net.FileConn(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("duplicate socket: %w", err)
	}
	return again.(*net.TCPConn), nil
}
