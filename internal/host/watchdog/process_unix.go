//go:build unix

package watchdog

import (
	"context"
	"os/signal"
	"syscall"
)

// ownSession makes the watchdog lead a session without a terminal, so that neither the end of
// the terminal nor a key pressed in it reaches the watchdog.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// shield keeps the end of the agent and of its terminal from ending this process: also
// SIGPIPE, since a reply to a dead agent must not kill it before it has undone its changes.
// SIGTERM ends the context.
func shield(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	return signal.NotifyContext(ctx, syscall.SIGTERM)
}
