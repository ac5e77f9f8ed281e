//go:build freebsd || darwin

package sockio

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// uncut sets IP_DONTFRAG (ip(4)) or IPV6_DONTFRAG (ip6(4)).
func uncut(fd uintptr, six bool) error {
	level, option := unix.IPPROTO_IP, unix.IP_DONTFRAG
	if six {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG
	}
	if err := unix.SetsockoptInt(int(fd), level, option, 1); err != nil {
		return fmt.Errorf("keep packets whole: %w", err)
	}
	return nil
}
