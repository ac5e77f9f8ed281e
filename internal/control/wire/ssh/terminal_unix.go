//go:build unix

package ssh

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"unsafe"
)

// terminal is this process's controlling terminal, where ssh may ask its user.
type terminal struct{ tty *os.File }

// openTerminal finds the terminal when this process is in its foreground. A nil
// terminal is none, and its methods work.
//
// Until takeBack, a Ctrl-Z does nothing: it would stop ssh alone, and leave
// nobody who could go on.
func openTerminal() *terminal {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	if group, err := foreground(tty); err != nil || group != syscall.Getpgrp() {
		_ = tty.Close()
		return nil
	}
	signal.Ignore(syscall.SIGTTOU, syscall.SIGTSTP)
	return &terminal{tty}
}

// asks reports whether ssh can ask somebody: here, or by a program of the user's
// (SSH_ASKPASS of ssh(1)).
func (t *terminal) asks() bool { return t != nil || os.Getenv("SSH_ASKPASS") != "" }

// file is the terminal for the child that asks; nil for none.
func (t *terminal) file() *os.File {
	if t == nil {
		return nil
	}
	return t.tty
}

// takeBack makes this process's group the foreground one again, so that Ctrl-C
// comes here and not to ssh, over which hosts are still to be undone.
func (t *terminal) takeBack() {
	if t == nil {
		return
	}
	own := int32(syscall.Getpgrp())
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, t.tty.Fd(), syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&own)))
	_ = t.tty.Close()
	signal.Reset(syscall.SIGTTOU, syscall.SIGTSTP)
}

// foreground is the process group that has the terminal (tty_ioctl(4)).
func foreground(tty *os.File) (int, error) {
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	if errno != 0 {
		return 0, errno
	}
	return int(group), nil
}

// interrupted reports whether a person ended a child with Ctrl-C.
func interrupted(exit *exec.ExitError) bool {
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGINT
}
