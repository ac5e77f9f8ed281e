//go:build unix

package serve

import (
	"os/exec"
	"syscall"
)

// nobody is an unprivileged user.
const nobody = 65534

func becomeNobody(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}
