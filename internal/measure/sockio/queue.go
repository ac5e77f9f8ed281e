package sockio

import (
	"fmt"
	"net"
)

// Unacknowledged is how much of what was written to c its peer has not acknowledged; an
// end of the connection that was sent counts as one byte. It wraps
// errors.ErrUnsupported where the system does not tell.
func Unacknowledged(c *net.TCPConn) (n int, err error) {
	if failed := OnDescriptor(c, func(fd uintptr) { n, err = unacknowledged(fd) }); failed != nil {
		return 0, failed
	}
	if err != nil {
		return 0, fmt.Errorf("read send queue: %w", err)
	}
	return n, nil
}

// LimitUnsent keeps about n bytes at most in the send buffer of c besides those that are
// on their way. Without Linux it does nothing.
func LimitUnsent(c *net.TCPConn, n int) (err error) {
	if failed := OnDescriptor(c, func(fd uintptr) { err = limitUnsent(fd, n) }); failed != nil {
		return failed
	}
	return err
}
