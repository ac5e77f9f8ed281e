//go:build !linux

package sockio

import (
	"net"

	"linerate/internal/measure/engine"
)

// openWindow does nothing: here the window follows the buffer at once.
func openWindow(uintptr, engine.SocketOptions) error { return nil }

// whyFallback returns why a connection that should use Multipath TCP uses TCP.
func whyFallback() string { return "linerate knows it on Linux only" }

// KeepUnsent does nothing: these systems have no such limit.
func KeepUnsent(*net.TCPConn, int) {}
