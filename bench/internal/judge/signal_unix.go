//go:build unix

package judge

import (
	"os"
	"syscall"
)

// signal stops or continues a process.
func signal(p *os.Process, stop bool) error {
	if stop {
		return p.Signal(syscall.SIGSTOP)
	}
	return p.Signal(syscall.SIGCONT)
}
