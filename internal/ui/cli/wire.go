package cli

import (
	"github.com/spf13/cobra"

	"linerate/internal/control/session"
	"linerate/internal/ui/agent"
)

// This file is where the command line meets what measures and changes: the entries
// of linerate's own processes, and the bounds of the protocol. All else goes through
// the use cases of internal/app.

// Bound and version of the protocol.
const (
	longestRun = session.MaxDuration
	protocol   = session.Protocol
)

// process is this one, for the commands that the agent program has too.
func (a *console) process() agent.Process {
	return agent.Process{In: a.In, Out: a.raw.Out, Err: a.Err, Terminal: a.OutTerminal, World: a.world}
}

// agentCommand is the agent of one session.
func (a *console) agentCommand() *cobra.Command {
	c := a.process().Command(&a.boot.wanted)
	c.Args = exactArgs()
	return c
}
