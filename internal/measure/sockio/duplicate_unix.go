//go:build unix

package sockio

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Duplicate returns a second descriptor of c, which outlives the first one and belongs to no
// event loop; -1 with an error.
func Duplicate(c syscall.Conn) (int, error) {
	fd, err := OnDescriptor(c, func(fd uintptr) (int, error) { return unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		return -1, fmt.Errorf("duplicate socket: %w", err)
	}
	return fd, nil
}
