package canary

import (
	"errors"
	"net"
	"unsafe"

	"golang.org/x/sys/windows"
)

// refused reports whether err means that no program listens on a port. Windows reports an
// undeliverable datagram as WSAECONNRESET (WSARecvFrom), and has no ECONNREFUSED of package
// syscall.
func refused(err error) bool {
	return errors.Is(err, windows.WSAECONNREFUSED) || errors.Is(err, windows.WSAECONNRESET)
}

// oversize reports whether a packet is larger than the path MTU that its socket knows.
func oversize(err error) bool { return errors.Is(err, windows.WSAEMSGSIZE) }

// hear makes a socket report refused datagrams, which package net switches off.
func hear(c net.Conn) error {
	u, ok := c.(*net.UDPConn)
	if !ok {
		return nil
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var ioErr error
	err = raw.Control(func(fd uintptr) {
		on, n := uint32(1), uint32(0)
		ioErr = windows.WSAIoctl(windows.Handle(fd), windows.SIO_UDP_CONNRESET, (*byte)(unsafe.Pointer(&on)), uint32(unsafe.Sizeof(on)), nil, 0, &n, nil, 0)
	})
	return errors.Join(err, ioErr)
}
