package canary

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// whole has packets of a socket go out in one piece or not at all, whatever the
// system has learnt about the path before (ip(7), IP_PMTUDISC_PROBE).
func whole(network, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		if six(network) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
			return
		}
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	})
	return errors.Join(cerr, err)
}

// learnt is what the system was told about the path of a connected socket, 0 for
// unknown.
func learnt(network string, c syscall.RawConn) int {
	mtu := 0
	err := c.Control(func(fd uintptr) {
		if six(network) {
			mtu, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU)
			return
		}
		mtu, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU)
	})
	if err != nil {
		return 0
	}
	return mtu
}
