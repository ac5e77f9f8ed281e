package sockio

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// bufferFactor is 1: the system reports the buffer size as requested.
const bufferFactor = 1

// bufferLimit names the setting that caps the send or receive buffer of a program.
func bufferLimit(string) string { return "kern.ipc.maxsockbuf" }

func setCongestion(fd int, name string) error {
	err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		// tcp_ctloutput, sys/netinet/tcp_usrreq.c: the module is not loaded. The error is
		// EINVAL until 12 and ESRCH since 13.
		return fmt.Errorf("not in net.inet.tcp.cc.available of this freebsd: %w", errors.ErrUnsupported)
	}
	return err
}
