package sockio

import (
	"errors"
	"fmt"
	"net"
	"runtime"
)

// Unacknowledged is how much of what was written to c its peer has not acknowledged; an
// end of the connection that was sent counts as one byte. It wraps
// errors.ErrUnsupported where the system does not tell.
func Unacknowledged(c *net.TCPConn) (int, error) {
	n, err := OnDescriptor(c, unacknowledged)
	if err != nil {
		return 0, fmt.Errorf("read send queue: %w", err)
	}
	return n, nil
}

// LimitUnsent keeps about n bytes at most in the send buffer of c besides those that are
// on their way. Without Linux it does nothing.
func LimitUnsent(c *net.TCPConn, n int) error {
	return WithDescriptor(c, func(fd uintptr) error { return limitUnsent(fd, n) })
}

// Twin returns a second descriptor of c, which outlives the first one and has deadlines of
// its own. On a system that has none (Windows) it is c itself.
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
