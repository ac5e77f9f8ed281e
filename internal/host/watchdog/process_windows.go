package watchdog

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/windows"
)

// ownSession has the watchdog outlive the console of the agent.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

// shield ignores Ctrl-C; SIGTERM is what Go makes of a closed console, a
// log-off or a shutdown, and ends the context.
func shield(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(os.Interrupt)
	return signal.NotifyContext(ctx, syscall.SIGTERM)
}
