package sockio

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// bindDevice binds both families: an IPv6 socket may carry IPv4 too.
func bindDevice(fd uintptr, name string) error {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BOUND_IF, i.Index)
	err6 := unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_BOUND_IF, i.Index)
	if err == nil || err6 == nil {
		return nil
	}
	return errors.Join(err, err6)
}
