package cli

import (
	"github.com/spf13/cobra"
)

// watchdogCommand is the process that owns the changes of an agent.
func (a *console) watchdogCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watchdog", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.serveWatchdog(cmd.Context(), args)
		},
	}
}
