//go:build linux || freebsd || darwin

package sockio

import (
	"os"

	"golang.org/x/sys/unix"
)

func reusePort(fd uintptr) error {
	return os.NewSyscallError("setsockopt SO_REUSEPORT", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
}
