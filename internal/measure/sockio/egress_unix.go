//go:build linux || freebsd || darwin

package sockio

import "golang.org/x/sys/unix"

// setTOS sets the byte for both families: an IPv6 socket may carry IPv4 too.
func setTOS(fd uintptr, tos int) error {
	err := unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, tos)
	if err6 := unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, tos); err6 == nil {
		return nil
	}
	return err
}

// reuseAddress allows a port whose earlier connections are still closing.
func reuseAddress(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
}
