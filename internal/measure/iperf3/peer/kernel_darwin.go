package peer

import (
	"net"

	"golang.org/x/sys/unix"
)

// soNWrite is SO_NWRITE of sys/socket.h: bytes in the send buffer, sent or not.
const soNWrite = 0x1024

func sendQueue(c *net.TCPConn) (n int, err error) {
	err = reach(c, func(fd uintptr) (err error) {
		n, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, soNWrite)
		return err
	})
	return n, err
}
