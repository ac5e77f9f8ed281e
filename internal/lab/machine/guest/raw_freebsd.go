package main

import "golang.org/x/sys/unix"

// raw makes a terminal carry bytes as they are. What is no terminal does already.
func raw(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TIOCGETA)
	if err != nil {
		return nil //nolint:nilerr // a file is no terminal
	}
	makeRaw(t)
	return unix.IoctlSetTermios(fd, unix.TIOCSETA, t)
}
