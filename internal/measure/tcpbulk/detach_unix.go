//go:build linux || freebsd

package tcpbulk

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpinfo"
)

// patience is the longest that a raw call blocks. It bounds how long a thread
// can miss the stop mark. It also makes the calls interruptible: with a time
// limit on the socket the kernel returns EINTR on a signal instead of starting
// again (signal(7)), so that the Go runtime can stop the thread whenever it
// wants to, although it does not know that the thread is in the kernel.
const (
	patience       = patienceMillis * time.Millisecond
	patienceMillis = 100
)

// fdLink is a connection that the Go runtime does not know: its own
// descriptor, which no event loop watches.
type fdLink struct{ fd int }

// detach takes c's socket out of the Go runtime's hands and closes c.
func detach(c *net.TCPConn) (fdLink, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return fdLink{}, fmt.Errorf("reach socket: %w", err)
	}
	l := fdLink{fd: -1}
	var failed error
	err = raw.Control(func(fd uintptr) {
		l.fd, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err := errors.Join(err, failed); err != nil {
		return fdLink{}, fmt.Errorf("duplicate socket: %w", err)
	}
	if err := c.Close(); err != nil {
		return fdLink{}, errors.Join(fmt.Errorf("close first descriptor: %w", err), l.close())
	}
	return l, nil
}

// interrupt shuts down what role uses: blocked calls return at once. A
// receiver keeps its own direction open, because a connection that is shut
// down both ways answers data with a reset (tcp_rcv_state_process,
// net/ipv4/tcp_input.c), which the sender would take for a failure.
func (l fdLink) interrupt(role model.Role) {
	how := unix.SHUT_RDWR
	if role == model.Receiver {
		how = unix.SHUT_RD
	}
	// It fails only where the connection has ended already.
	_ = unix.Shutdown(l.fd, how)
}

func (l fdLink) info() (tcpinfo.Info, error)      { return tcpinfo.ReadFD(uintptr(l.fd)) }
func (l fdLink) congestion() (string, error)      { return tcpinfo.CongestionFD(uintptr(l.fd)) }
func (l fdLink) granted() (sockio.Granted, error) { return sockio.ReadFD(uintptr(l.fd)) }
func (l fdLink) close() error                     { return unix.Close(l.fd) }

// errnoErr returns e as an error, nil for none.
func errnoErr(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}
