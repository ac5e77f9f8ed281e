//go:build freebsd || darwin

package peer

import (
	"net"

	"linerate/internal/measure/sockio"
)

// fionread is FIONREAD of sys/filio.h: bytes in the receive buffer.
const fionread = 0x4004667f

func delivered(c *net.TCPConn) (bool, error) {
	n, err := sockio.Unacknowledged(c)
	return err == nil && n == 0, err
}
