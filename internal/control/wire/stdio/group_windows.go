package stdio

import (
	"os"
	"syscall"
)

// ownGroup puts a child into a process group of its own, which Ctrl-C at the
// console does not reach (CREATE_NEW_PROCESS_GROUP of CreateProcess).
func ownGroup(*os.File) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup kills a child. Windows has no signal to a group; an agent ends with its standard
// input anyway.
func killGroup(p *os.Process) { _ = p.Kill() }
