//go:build unix

package stdio

import (
	"os"
	"syscall"
)

// ownGroup puts a child into a process group of its own, and makes that the foreground group of
// the terminal if there is one.
func ownGroup(terminal *os.File) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if terminal != nil {
		attr.Foreground, attr.Ctty = true, int(terminal.Fd())
	}
	return attr
}

// killGroup kills a child and its process group.
func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	_ = p.Kill()
}
