//go:build freebsd || darwin

package canary

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// whole has packets of a socket go out in one piece or not at all (ip(4),
// IP_DONTFRAG; ip6(4), IPV6_DONTFRAG).
func whole(network, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		if six(network) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1)
			return
		}
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_DONTFRAG, 1)
	})
	return errors.Join(cerr, err)
}

// learnt is not told by these systems.
func learnt(string, syscall.RawConn) int { return 0 }
