package cli

import (
	"github.com/spf13/cobra"

	"linerate/internal/app/reach"
	"linerate/internal/core/model"
)

// pathFlags say how the data connections are made.
type pathFlags struct{ port, from, through string }

func (f *pathFlags) register(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.port, "data-port", "", "port, or range as 5300-5310, at which data connections are accepted, TCP and UDP (default: one that is free, for each run)")
	fl.StringVar(&f.from, "connect-from", "near", "which end makes the data connections: near or far; through a NAT, the one behind it")
	fl.StringVar(&f.through, "through", "", "ssh: the data go through the connection of ssh, where nothing else is open; TCP only, and it measures ssh")
	for name, values := range map[string][]string{"connect-from": {"near", "far"}, "through": {model.ThroughSSH}} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // it errs for a flag that is not there
	}
}

// contractFlag is --rate: what the path is meant to carry.
type contractFlag struct{ c *reach.Contract }

func (f contractFlag) String() string {
	if f.c == nil {
		return ""
	}
	return f.c.String()
}

func (contractFlag) Type() string { return "RATE" }

// Set implements pflag.Value.
func (f contractFlag) Set(text string) (err error) {
	*f.c, err = reach.ParseContract(text)
	return err
}

// bindContract gives a command that measures the flag --rate.
func (a *console) bindContract(c *cobra.Command) *cobra.Command {
	c.Flags().Var(contractFlag{&a.contract}, "rate", "what the path is meant to carry, as 200mbit or to=50mbit,from=10mbit, where no host can know it (a WAN, a VPN, a virtual machine); remembered for the path, none forgets it")
	return c
}

// over returns p with what was given in its place.
func (f pathFlags) over(p model.DataPath, given func(string) bool) (model.DataPath, error) {
	var bad faults
	var err error
	if given("data-port") {
		p.Ports, err = model.ParsePorts(f.port)
		bad.add("data-port", err)
	}
	if given("connect-from") {
		p.ConnectFrom, err = model.ParseConnectFrom(f.from)
		bad.add("connect-from", err)
	}
	if given("through") {
		p.Through, err = model.ParseThrough(f.through)
		bad.add("through", err)
	}
	return p, bad.err()
}
