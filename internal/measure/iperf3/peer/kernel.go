package peer

import (
	"fmt"
	"net"
)

// What the ways ask the kernel of a TCP connection, and what the leaves
// answer. Every function wraps errors.ErrUnsupported where the system does not
// tell.

// reach calls f with the descriptor of c.
func reach(c *net.TCPConn, f func(fd uintptr) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("reach socket: %w", err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(fd) }); err != nil {
		return fmt.Errorf("reach socket: %w", err)
	}
	return failed
}

// delivered reports whether the peer has acknowledged everything that was
// written. Linux answers for a connection that has been shut down, its end
// included; elsewhere the send buffer is empty, which a sender that is not
// done can have too.
func delivered(c *net.TCPConn) (bool, error) { return kernelDelivered(c) }

// received returns how many bytes have come since the connection began,
// whether or not they have been read. The peer's end may count as one more.
func received(c *net.TCPConn) (int64, error) { return kernelReceived(c) }

// unread returns how many bytes have come and not been read.
func unread(c *net.TCPConn) (int, error) { return kernelUnread(c) }

// ended reports whether the peer has ended its direction.
func ended(c *net.TCPConn) (bool, error) { return kernelEnded(c) }

// pace limits what c sends to bytesPerSecond of payload.
func pace(c *net.TCPConn, bytesPerSecond uint64) error { return kernelPace(c, bytesPerSecond) }

// keep returns a second handle of c, for the time when an engine has taken
// c over. It may be c itself, where the engine leaves that open.
func keep(c *net.TCPConn) (*net.TCPConn, error) { return kernelKeep(c) }
