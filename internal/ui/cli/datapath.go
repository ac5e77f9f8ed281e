package cli

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/app/target"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/units"
	"linerate/internal/ui/config"
)

// registerPath adds the flags that say how the data connections are made.
func registerPath(c *cobra.Command) {
	fl := c.Flags()
	fl.String("data-port", "", "port, or range as 5300-5310, at which data connections are accepted, TCP and UDP (default: one that is free, for each run)")
	fl.String("connect-from", "near", "which end makes the data connections: near or far; through a NAT, the one behind it")
	fl.String("through", "", "ssh: the data go through the connection of ssh, where nothing else is open; TCP only, and it measures ssh")
	_ = c.RegisterFlagCompletionFunc("connect-from", cobra.FixedCompletions([]string{"near", "far"}, cobra.ShellCompDirectiveNoFileComp)) // fails only for an unknown flag
	_ = c.RegisterFlagCompletionFunc("through", cobra.FixedCompletions([]string{model.ThroughSSH}, cobra.ShellCompDirectiveNoFileComp))
	registerEgress(c)
}

// registerEgress adds only the flags for where data leave from, and how they are marked.
func registerEgress(c *cobra.Command) {
	fl := c.Flags()
	fl.StringP("bind", "B", "", "address of the near end that data leave from, as 10.0.0.2 or fe80::1%eth0 (default: by the route)")
	fl.String("bind-dev", "", "interface of the near end that data leave through (default: by the route)")
	fl.String("cport", "", "port from which on the near end's connections take theirs, or range as 6000-6100 (default: the system's choice)")
	fl.StringP("dscp", "S", "", "mark the data of both ends: 0 to 63, or a name such as ef, af41 or le")
	_ = c.RegisterFlagCompletionFunc("dscp", cobra.FixedCompletions(model.DSCPNames(), cobra.ShellCompDirectiveNoFileComp))
}

// contractFlag is --rate: what the path is meant to carry.
type contractFlag struct{ c *target.Contract }

func (f contractFlag) String() string {
	if f.c == nil {
		return ""
	}
	return f.c.String()
}

func (contractFlag) Type() string { return "RATE" }

// Set implements pflag.Value.
func (f contractFlag) Set(text string) (err error) {
	*f.c, err = target.ParseContract(text)
	return err
}

// calmTime is how long a measurement waits for a busy host by default (p).
const calmTime = 30 * time.Second

// waiting returns how long a measurement waits for a busy host, from the environment.
func (a *console) waiting() time.Duration {
	if d, err := units.ParseDuration(a.Getenv("LINERATE_WAIT")); err == nil {
		return d
	}
	return calmTime
}

// bindContract adds the flags --rate and --wait to a command that measures.
func (a *console) bindContract(c *cobra.Command) *cobra.Command {
	c.Flags().Var(contractFlag{&a.contract}, "rate", "what the path is meant to carry, as 200mbit or to=50mbit,from=10mbit, where no host can know it (a WAN, a VPN, a virtual machine); remembered for the path, none forgets it")
	a.calm = a.waiting()
	c.Flags().Var(durationFlag{&a.calm}, "wait", "how long to wait at most, before the first run, while other programs keep a host busy (default $LINERATE_WAIT, else 30 s)")
	c.Flags().Lookup("wait").DefValue = "" // the text has it
	return c
}

// pathOver sets the data path from path and the flags of fl.
func (a *console) pathOver(path model.DataPath, fl *pflag.FlagSet) error {
	file, err := a.over(config.File{Request: plan.Request{Plan: model.Plan{Path: path}}}, fl)
	a.path = file.Path
	return err
}
