package sockio

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"linerate/internal/measure/engine"
)

// bufferFactor is the factor by which the kernel multiplies a requested buffer size before it
// reports it: __sock_set_rcvbuf, net/core/sock.c.
const bufferFactor = 2

// bufferLimit names the setting that caps the send or receive buffer of a program.
func bufferLimit(name string) string {
	if name == "send" {
		return "net.core.wmem_max"
	}
	return "net.core.rmem_max"
}

func setCongestion(fd int, name string) error {
	err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		// tcp_set_congestion_control, net/ipv4/tcp_cong.c: no such module.
		has, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
		if err != nil || len(has) == 0 {
			return fmt.Errorf("not in net.ipv4.tcp_available_congestion_control of this linux: %w", errors.ErrUnsupported)
		}
		return fmt.Errorf("this linux has %s: %w", strings.Join(strings.Fields(string(has)), ", "), errors.ErrUnsupported)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("not in net.ipv4.tcp_allowed_congestion_control: %w", err)
	}
	return err
}

// openWindow lets the window of an established connection grow to a buffer that was set late,
// as on a server that listens on one port for all clients. Linux limits the window that it
// announces by the initial buffer (window_clamp in tcp_init_buffer_space,
// net/ipv4/tcp_input.c), 64 KiB by default, and 6.1 does not raise the limit with SO_RCVBUF.
// openWindow lowers nothing. Multipath TCP sockets lack the option.
func openWindow(fd uintptr, o engine.SocketOptions) error {
	window := o.Window
	if window == 0 || o.MPTCP {
		return nil
	}
	most, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP)
	if err == nil && most < window {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP, window)
	}
	if err != nil {
		return fmt.Errorf("let the receive window grow to %d bytes: %w", window, err)
	}
	return nil
}

// KeepUnsent limits the unsent data in the send buffer of c to bytes (TCP_NOTSENT_LOWAT), so
// that later data waits behind no more. If the kernel refuses nothing changes; other systems
// have no such limit.
func KeepUnsent(c *net.TCPConn, bytes int) {
	_ = WithDescriptor(c, func(fd uintptr) error {
		return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes)
	})
}

// whyFallback returns why a connection that should use Multipath TCP uses TCP.
func whyFallback() string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	switch {
	case errors.Is(err, unix.ENOPROTOOPT):
		return "net.mptcp.enabled is 0 on this host"
	case err != nil: // EINVAL before 5.6, EPROTONOSUPPORT if not built in
		return "the kernel of this host does not have it"
	}
	_ = unix.Close(fd)
	return "the other end does not offer it, or a device on the way removes it (a server offers it with linerate serve --mptcp)"
}
