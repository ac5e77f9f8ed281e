package cli

import (
	"context"

	"github.com/spf13/cobra"

	"linerate/internal/app"
	"linerate/internal/host/watchdog"
)

// watchdogCommand is the process that owns the changes of an agent.
func (a *console) watchdogCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watchdog", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := watchdog.ParseArgs(args)
			if err != nil {
				return app.WithKind(app.Usage, err)
			}
			cfg.After, cfg.Talk = a.AfterStep, a.Err
			// The signals that end other commands are the watchdog's own business.
			return watchdog.Serve(context.WithoutCancel(cmd.Context()), a.In, a.raw.Out, cfg)
		},
	}
}
