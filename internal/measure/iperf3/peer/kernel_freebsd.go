package peer

import (
	"net"

	"golang.org/x/sys/unix"
)

// fionwrite is FIONWRITE of sys/filio.h: bytes in the send buffer, sent or not.
const fionwrite = 0x40046677

func sendQueue(c *net.TCPConn) (n int, err error) {
	err = reach(c, func(fd uintptr) (err error) {
		n, err = unix.IoctlGetInt(int(fd), fionwrite)
		return err
	})
	return n, err
}
