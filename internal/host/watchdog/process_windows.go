package watchdog

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/windows"
)

// ownSession makes the watchdog outlive the agent's console.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

// shield ignores Ctrl-C; Go sends SIGTERM for a closed console, a log-off or a shutdown,
// which ends the context.
func shield(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(os.Interrupt)
	return signal.NotifyContext(ctx, syscall.SIGTERM)
}
