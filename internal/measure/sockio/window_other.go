//go:build !linux

package sockio

// openWindow has nothing to do where the window follows the buffer at once.
func openWindow(uintptr, int) error { return nil }
