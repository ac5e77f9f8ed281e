//go:build linux || freebsd

package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// openLine opens the line, waiting for its device, which a driver may create later.
func openLine(path string) (*os.File, error) {
	for range 600 {
		// O_NONBLOCK: opening a port whose driver is not connected must not block.
		file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOCTTY, 0)
		if err == nil {
			if err := raw(int(file.Fd())); err != nil {
				file.Close()
				return nil, fmt.Errorf("line %s: %w", path, err)
			}
			return file, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, fmt.Errorf("no line %s after a minute", path)
}

// ownGroup lets a program be killed with its children.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
