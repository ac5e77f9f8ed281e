package sockio

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// IP_DONTFRAGMENT and IPV6_DONTFRAG of ws2ipdef.h.
const dontFragment = 14

func uncut(fd uintptr, six bool) error {
	level := windows.IPPROTO_IP
	if six {
		level = windows.IPPROTO_IPV6
	}
	if err := windows.SetsockoptInt(windows.Handle(fd), level, dontFragment, 1); err != nil {
		return fmt.Errorf("keep packets whole: %w", err)
	}
	return nil
}
