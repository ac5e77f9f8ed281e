package canary

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

// Options of ws2ipdef.h.
const (
	ipDontFragment  = 14 // IP_DONTFRAGMENT
	ip6DontFragment = 14 // IPV6_DONTFRAG
)

// whole has packets of a socket go out in one piece or not at all.
func whole(network, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		if six(network) {
			err = windows.SetsockoptInt(windows.Handle(fd), windows.IPPROTO_IPV6, ip6DontFragment, 1)
			return
		}
		err = windows.SetsockoptInt(windows.Handle(fd), windows.IPPROTO_IP, ipDontFragment, 1)
	})
	return errors.Join(cerr, err)
}

// learnt is not asked for here.
func learnt(string, syscall.RawConn) int { return 0 }
