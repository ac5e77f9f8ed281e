//go:build unix

package ssh

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"unsafe"
)

// terminal is this process's controlling terminal, on which ssh may prompt.
type terminal struct{ tty *os.File }

// openTerminal returns the terminal if this process is in its foreground, else nil. Methods work
// on nil.
//
// Until takeBack, Ctrl-Z has no effect: it would stop only ssh, and no process could resume it.
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

// asks reports whether ssh has a terminal or an askpass program to prompt on (SSH_ASKPASS of
// ssh(1)).
func (t *terminal) asks() bool { return t != nil || os.Getenv("SSH_ASKPASS") != "" }

// file returns the terminal for the child that prompts; nil for none.
func (t *terminal) file() *os.File {
	if t == nil {
		return nil
	}
	return t.tty
}

// takeBack makes this process's group the foreground one again, so that Ctrl-C reaches it and
// not ssh, which still carries the undo of hosts.
func (t *terminal) takeBack() {
	if t == nil {
		return
	}
	own := int32(syscall.Getpgrp())
	_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, t.tty.Fd(), syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&own)))
	_ = t.tty.Close()
	signal.Reset(syscall.SIGTTOU, syscall.SIGTSTP)
}

// foreground returns the foreground process group of the terminal (tty_ioctl(4)).
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
