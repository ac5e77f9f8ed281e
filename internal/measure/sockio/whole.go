package sockio

import (
	"errors"
	"net"
	"strings"
	"syscall"
)

// Uncut makes the datagrams of a connected socket leave in one piece or not at all, whatever
// the system has learnt about the path before. The error wraps errors.ErrUnsupported if the
// system cannot do that.
func Uncut(c *net.UDPConn) error { return onUDP(c, uncut) }

// ControlUncut is Uncut for the Control field of a net.ListenConfig.
func ControlUncut(network, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = uncut(fd, strings.HasPrefix(network, "ip6") || strings.HasSuffix(network, "6"))
	})
	return errors.Join(err, failed)
}

// PathMTU returns the system's path MTU of a connected socket, in bytes; 0 is unknown.
func PathMTU(c *net.UDPConn) int {
	mtu := 0
	if err := onUDP(c, func(fd uintptr, six bool) error { mtu = pathMTU(fd, six); return nil }); err != nil {
		return 0
	}
	return mtu
}

// SetMark sets the ECN mark of datagrams, in the lower two bits (RFC 3168 section 5). The error
// wraps errors.ErrUnsupported if the system cannot do that.
func SetMark(c *net.UDPConn, mark byte) error {
	return onUDP(c, func(fd uintptr, six bool) error { return setMark(fd, six, mark) })
}

// TellMarks makes the system report the ECN mark of each datagram, for Mark. The error wraps
// errors.ErrUnsupported if the system cannot.
func TellMarks(c *net.UDPConn) error { return onUDP(c, tellMarks) }

// Mark returns the byte with the ECN mark, in its lower two bits, from a datagram's control
// messages; false if there is none.
func Mark(oob []byte) (byte, bool) { return mark(oob) }

// onUDP runs f on the descriptor of c.
func onUDP(c *net.UDPConn, f func(fd uintptr, six bool) error) error {
	a, ok := c.RemoteAddr().(*net.UDPAddr)
	return WithDescriptor(c, func(fd uintptr) error { return f(fd, ok && a.IP.To4() == nil) })
}
