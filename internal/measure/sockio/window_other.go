//go:build !linux

package sockio

import "linerate/internal/measure/engine"

// openWindow has nothing to do where the window follows the buffer at once.
func openWindow(uintptr, engine.SocketOptions) error { return nil }

// whyFallback says why a connection that was to use Multipath TCP uses TCP.
func whyFallback() string { return "linerate knows it on Linux only" }
