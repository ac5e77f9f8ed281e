package main

import "golang.org/x/sys/unix"

// raw sets a terminal to raw mode. It does nothing if fd is no terminal.
func raw(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil //nolint:nilerr // a virtio port is no terminal
	}
	makeRaw(t)
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}
