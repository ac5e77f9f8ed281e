package sockio

import (
	"errors"
	"net"
	"unsafe"

	"golang.org/x/sys/windows"
)

// refused: Windows never returns syscall.ECONNREFUSED. It reports an undeliverable datagram as
// a reset (WSARecvFrom, WSAECONNRESET), and also a broken stream, which the caller must
// distinguish.
func refused(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Net == "udp" || op.Net == "udp4" || op.Net == "udp6") && errors.Is(err, windows.WSAECONNRESET) {
		return true
	}
	return errors.Is(err, windows.WSAECONNREFUSED)
}

func hearRefusals(c *net.UDPConn) error {
	return WithDescriptor(c, func(fd uintptr) error {
		on, n := uint32(1), uint32(0)
		return windows.WSAIoctl(windows.Handle(fd), windows.SIO_UDP_CONNRESET, (*byte)(unsafe.Pointer(&on)), uint32(unsafe.Sizeof(on)), nil, 0, &n, nil, 0)
	})
}
