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

// bufferFactor is what the kernel multiplies an asked buffer size with before
// it reports it: __sock_set_rcvbuf, net/core/sock.c.
const bufferFactor = 2

// bufferLimit names what caps the send or receive buffer that a program asks for.
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

// openWindow lets the window of an established connection grow to the buffer that it
// was given late, as a server has to that hears on one port for everybody: Linux fixes
// the most that it will announce by the buffer that the connection began with
// (window_clamp in tcp_init_buffer_space, net/ipv4/tcp_input.c), 64 KiB by default, and
// 6.1 does not raise it with SO_RCVBUF. Nothing is lowered. Sockets of Multipath TCP lack
// the option.
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

// KeepUnsent lets at most so many bytes wait in the send buffer of c that were not sent yet
// (TCP_NOTSENT_LOWAT), so that what is written later waits behind no more. A kernel that
// refuses leaves it as it was; other systems have no such bound.
func KeepUnsent(c *net.TCPConn, bytes int) {
	_ = WithDescriptor(c, func(fd uintptr) error {
		return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes)
	})
}

// whyFallback says why a connection that was to use Multipath TCP uses TCP.
func whyFallback() string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	switch {
	case errors.Is(err, unix.ENOPROTOOPT):
		return "net.mptcp.enabled is 0 on this host"
	case err != nil: // EINVAL before 5.6, EPROTONOSUPPORT where it was left out
		return "the kernel of this host does not have it"
	}
	_ = unix.Close(fd)
	return "the other end does not offer it, or a device on the way removes it (a server offers it with linerate serve --mptcp)"
}
