//go:build unix

package live

import (
	"os"

	"golang.org/x/sys/unix"
)

// Foreground reports whether this process has the terminal f to itself: a process in the
// background of a shell would be stopped when it reads a key or changes how keys are read
// (POSIX.1-2017, Base Definitions section 11.1.4).
func Foreground(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	group, ioctlErr := 0, error(nil)
	err = raw.Control(func(fd uintptr) { group, ioctlErr = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
	return err == nil && ioctlErr == nil && group == unix.Getpgrp()
}
