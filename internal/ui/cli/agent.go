package cli

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"linerate/internal/app/here"
	"linerate/internal/core/units"
)

func (a *console) agentCommand() *cobra.Command {
	var o here.Options
	var rate float64  // bit/s
	var remove string // directory of this program, which goes with it
	c := &cobra.Command{
		Use: "agent", Short: "measure and change this host for a controller on stdin and stdout",
		Long: `agent serves one session on its stdin and stdout. It is started by a controller:
linerate test 'exec:10.0.0.2 ip netns exec b linerate agent'. What it changes is
undone when the session ends, however it ends; what an earlier agent left changed
when it was killed is undone at the start.`,
		Example: `  linerate test 'exec:10.0.0.2 ip netns exec b linerate agent'`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, ok := a.raw.Out.(*os.File)
			if ok && a.OutTerminal {
				return withHint(usagef("agent speaks a protocol on stdin and stdout, not to people"), "see linerate agent --help")
			}
			if !ok {
				return errors.New("agent needs its own stdout")
			}
			in, ok := a.In.(*os.File)
			if !ok {
				return errors.New("agent needs its own stdin")
			}
			conn, done := joinStdio(in, out)
			defer a.removeSelf(remove)
			o.AtBoot, o.Rate = a.boot.wanted, units.BitRate(rate)
			err := here.Serve(cmd.Context(), a.world(), conn, o)
			_ = conn.Close()
			_ = in.Close()
			select {
			case <-done:
			case <-time.After(time.Second): // a reader that never reads what we say last
			}
			return err
		},
	}
	c.Flags().StringVar(&o.State, "state", "", "directory of the journal (default: $LINERATE_STATE, else the system's)")
	c.Flags().StringVar(&o.Link, "interface", "", "interface that link settings act on (default: the one that leads to the other end)")
	c.Flags().Float64Var(&rate, "link-rate", 0, "rate of that link in bit/s, where the system does not know it")
	a.bindAtBoot(c.Flags())
	c.Flags().BoolVar(&o.Commands, "allow-commands", false, "let the controller run commands of its own here, with the rights of this agent")
	c.Flags().BoolVar(&o.Acknowledge, "acknowledge", false, "you have seen what is left of a damaged journal here; see linerate undo")
	c.Flags().StringVar(&remove, "remove", "", "at the end, remove this program with its directory DIR")
	return c
}
