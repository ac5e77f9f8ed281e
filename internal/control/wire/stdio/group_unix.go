//go:build unix

package stdio

import (
	"os"
	"syscall"
)

// ownGroup puts a child into a process group of its own, and that into the
// foreground of a terminal where one is given.
func ownGroup(terminal *os.File) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if terminal != nil {
		attr.Foreground, attr.Ctty = true, int(terminal.Fd())
	}
	return attr
}

// killGroup kills a child and what it started in its group.
func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	_ = p.Kill()
}
