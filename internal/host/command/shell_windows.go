package command

import (
	"context"
	"os/exec"
	"syscall"
)

// shell passes the text to cmd.exe unchanged: /s strips the outer quotation marks only.
func shell(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "cmd.exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /d /s /c "` + text + `"`}
	return cmd
}
