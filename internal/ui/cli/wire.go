package cli

import (
	"context"
	"net"
	"os"

	"github.com/spf13/cobra"

	"linerate/internal/app"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/host/watchdog"
)

// This file is where the command line meets what measures and changes: the entries
// of linerate's own processes, and the bounds of the protocol. All else goes through
// the use cases of internal/app.

// Bounds and version of the protocol.
const (
	longestRun       = session.MaxDuration
	shortestInterval = session.MinInterval
	protocol         = session.Protocol
)

// joinStdio is the connection on stdin and stdout of an agent.
func joinStdio(in, out *os.File) (conn net.Conn, done <-chan struct{}) { return wire.Join(in, out) }

// serveWatchdog is the process that owns the changes of an agent.
func (a *console) serveWatchdog(ctx context.Context, args []string) error {
	cfg, err := watchdog.ParseArgs(args)
	if err != nil {
		return app.WithKind(app.Usage, err)
	}
	cfg.After, cfg.Talk, cfg.Host.Index = a.AfterStep, a.Err, a.knobs
	// The signals that end other commands are the watchdog's own business.
	return watchdog.Serve(context.WithoutCancel(ctx), a.In, a.raw.Out, cfg)
}

// watchdogCommand is the process that owns the changes of an agent.
func (a *console) watchdogCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watchdog", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.serveWatchdog(cmd.Context(), args)
		},
	}
}
