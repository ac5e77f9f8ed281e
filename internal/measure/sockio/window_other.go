//go:build !linux

package sockio

import (
	"net"

	"linerate/internal/measure/engine"
)

// openWindow has nothing to do where the window follows the buffer at once.
func openWindow(uintptr, engine.SocketOptions) error { return nil }

// whyFallback says why a connection that was to use Multipath TCP uses TCP.
func whyFallback() string { return "linerate knows it on Linux only" }

// KeepUnsent does nothing where the system has no such bound.
func KeepUnsent(*net.TCPConn, int) {}
