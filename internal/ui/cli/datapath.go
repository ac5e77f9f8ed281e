package cli

import (
	"github.com/spf13/cobra"

	"linerate/internal/app/reach"
	"linerate/internal/core/model"
)

// pathFlags say how the data connections are made.
type pathFlags struct {
	port, from, through       string
	bind, device, cport, dscp string
}

func (f *pathFlags) register(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.port, "data-port", "", "port, or range as 5300-5310, at which data connections are accepted, TCP and UDP (default: one that is free, for each run)")
	fl.StringVar(&f.from, "connect-from", "near", "which end makes the data connections: near or far; through a NAT, the one behind it")
	fl.StringVar(&f.through, "through", "", "ssh: the data go through the connection of ssh, where nothing else is open; TCP only, and it measures ssh")
	_ = c.RegisterFlagCompletionFunc("connect-from", cobra.FixedCompletions([]string{"near", "far"}, cobra.ShellCompDirectiveNoFileComp)) // it errs for a flag that is not there
	_ = c.RegisterFlagCompletionFunc("through", cobra.FixedCompletions([]string{model.ThroughSSH}, cobra.ShellCompDirectiveNoFileComp))
	f.registerEgress(c)
}

// registerEgress adds only the flags that say where data leave from, and how they are marked.
func (f *pathFlags) registerEgress(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVarP(&f.bind, "bind", "B", "", "address of the near end that data leave from, as 10.0.0.2 or fe80::1%eth0 (default: by the route)")
	fl.StringVar(&f.device, "bind-dev", "", "interface of the near end that data leave through (default: by the route)")
	fl.StringVar(&f.cport, "cport", "", "port from which on the near end's connections take theirs, or range as 6000-6100 (default: the system's choice)")
	fl.StringVarP(&f.dscp, "dscp", "S", "", "mark the data of both ends: 0 to 63, or a name such as ef, af41 or le")
	_ = c.RegisterFlagCompletionFunc("dscp", cobra.FixedCompletions(model.DSCPNames(), cobra.ShellCompDirectiveNoFileComp))
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
	if given("bind") {
		e, err := model.ParseBind(f.bind)
		bad.add("bind", err)
		p.Bind, p.Device = e.Bind, e.Device
	}
	if given("bind-dev") {
		p.Device, err = model.ParseDevice(f.device)
		bad.add("bind-dev", err)
	}
	if given("cport") {
		p.From, err = model.ParseClientPorts(f.cport)
		bad.add("cport", err)
	}
	if given("dscp") {
		p.DSCP, err = model.ParseDSCP(f.dscp)
		bad.add("dscp", err)
	}
	return p, bad.err()
}
