package cli

import (
	"github.com/spf13/cobra"

	"linerate/internal/control/session"
	"linerate/internal/ui/agent"
)

// This file connects the command line to the code that measures and changes: the entry points of
// linerate's own processes, and the limits of the protocol. Everything else goes through the use
// cases of internal/app.

// Limit and version of the protocol.
const (
	longestRun = session.MaxDuration
	protocol   = session.Protocol
)

// process describes this process, for the commands that the agent program has too.
func (a *console) process() agent.Process {
	return agent.Process{In: a.In, Out: a.raw.Out, Err: a.Err, Terminal: a.OutTerminal, World: a.world}
}

// agentCommand is the agent of one session, or a host of a hub's fleet.
func (a *console) agentCommand() *cobra.Command {
	c := a.process().Command(&a.boot.wanted)
	c.Args = exactArgs()
	a.bindMember(c)
	return c
}
