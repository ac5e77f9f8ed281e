//go:build unix

package judge

import (
	"os"
	"syscall"
)

// signal stops a process, or lets it go on.
func signal(p *os.Process, stop bool) error {
	if stop {
		return p.Signal(syscall.SIGSTOP)
	}
	return p.Signal(syscall.SIGCONT)
}
