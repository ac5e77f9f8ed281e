package knob

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Rights returns why this process may not change settings of its network namespace, nil if it
// may or that is unknown: it needs CAP_NET_ADMIN (capabilities(7); for /proc/sys/net
// net/sysctl_net.c).
func Rights() error {
	var set [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &set[0])
	if err == nil && set[0].Effective&(1<<unix.CAP_NET_ADMIN) == 0 {
		return errors.New("linerate has no root rights (CAP_NET_ADMIN)")
	}
	return nil
}
