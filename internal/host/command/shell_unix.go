//go:build unix

package command

import (
	"context"
	"os/exec"
	"syscall"
)

// shell returns the command in a process group of its own, so that all of it can be killed.
func shell(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", text)
	cmd.SysProcAttr = attributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
