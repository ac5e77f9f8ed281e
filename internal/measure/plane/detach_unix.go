//go:build linux || freebsd

package plane

import (
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/measure/sockio"
)

// Patience is the longest that a raw call blocks. It bounds how long a thread can miss a stop.
// A timeout on the socket also makes the calls interruptible: with it the kernel returns EINTR
// on a signal instead of restarting the call (signal(7)), so that the Go runtime can stop the
// thread whenever it wants to, although it does not know that the thread is in the kernel.
const Patience = 100 * time.Millisecond

// Detach takes c's socket away from the Go runtime and closes c: no event loop watches the
// returned descriptor, which is still non-blocking.
func Detach(c *net.TCPConn) (int, error) {
	fd, err := sockio.Duplicate(c)
	if err != nil {
		return -1, err
	}
	if err := c.Close(); err != nil {
		return -1, errors.Join(fmt.Errorf("close first descriptor: %w", err), unix.Close(fd))
	}
	return fd, nil
}

// Block makes calls on a detached socket block, for at most Patience.
func Block(fd int) error {
	limit := unix.NsecToTimeval(int64(Patience))
	err := errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
		unix.SetNonblock(fd, false))
	if err != nil {
		return fmt.Errorf("make socket blocking: %w", err)
	}
	return nil
}
