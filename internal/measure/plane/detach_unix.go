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

// Patience is the longest that a raw call blocks. It bounds how long a thread
// can miss that it shall stop. It also makes the calls interruptible: with a time
// limit on the socket the kernel returns EINTR on a signal instead of starting
// again (signal(7)), so that the Go runtime can stop the thread whenever it
// wants to, although it does not know that the thread is in the kernel.
const Patience = 100 * time.Millisecond

// Detach takes c's socket out of the Go runtime's hands and closes c: the descriptor
// that it returns is watched by no event loop, and still does not block.
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

// Block makes calls on a detached socket block, for as long as Patience.
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
