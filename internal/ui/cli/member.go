package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"linerate/internal/app/hub"
	"linerate/internal/app/member"
	"linerate/internal/app/serve"
	"linerate/internal/core/fleet"
	"linerate/internal/fault"
)

// memberFlags are the flags of a host of a fleet.
type memberFlags struct {
	member.Config
	hub, rate, share, quiet string
	printUnit               bool
}

// bindMember adds the flags of a host of a fleet to the command agent.
func (a *console) bindMember(c *cobra.Command) {
	var f memberFlags
	alone := c.RunE
	c.Short = "measure and change this host for a controller, or measure with the hosts of a hub"
	c.Long += `

With --hub LINK it makes this host one of a fleet, for good: it keeps in touch with the hub
that printed LINK, from this host outward, and lets the other hosts measure to its port,
TCP and UDP, with tickets that the hub signs. It measures only, and changes nothing.
The limits of its owner hold whatever the hub asks for: --max-rate, --max-share, --quiet-hours and
--probe-only. Without the hub it follows the orders that it has, and keeps results until the
hub has stored them. The link's token is needed once: later the hub knows this host by its
key. Started by root, it gives root up as linerate serve does.`
	c.Example += `
  linerate agent --hub "$HUB"
  linerate agent --hub @hub.link --max-rate 200mbit --quiet-hours 08:00-18:00`
	fl := c.Flags()
	fl.StringVar(&f.hub, "hub", "", "the link that linerate hub prints, or @FILE")
	fl.StringVar(&f.Name, "name", "", "name of this host in the fleet (default: its host name)")
	fl.StringVar(&f.rate, "max-rate", "", "of TCP, each way, as 200mbit (default: no limit)")
	fl.StringVar(&f.share, "max-share", fmt.Sprintf("%g%%", 100*fleet.DefaultShare), "of each hour in which this host measures at most")
	fl.StringVar(&f.quiet, "quiet-hours", "", "when not to measure, as 08:00-18:00, by the clock of this host")
	fl.BoolVar(&f.Limits.ProbeOnly, "probe-only", false, "round trip and loss alone")
	fl.BoolVar(&f.Rejoin, "rejoin", false, "join with a new key: for a copy of another host's disk")
	fl.StringVar(&f.Serve.Listen, "listen", ":"+serve.DefaultPort, "address and port for the other hosts")
	fl.StringVar(&f.Serve.Host, "host", "", "name or address by which they reach this host (default: its addresses)")
	fl.StringVar(&f.Serve.Audit, "audit", "", "append a line for each session and run to this file")
	fl.StringVar(&f.Serve.User, "user", "", "user to become once the port is open (default, for root: one that no account has)")
	fl.BoolVar(&f.Serve.Unconfined, "unconfined", false, "as of linerate serve")
	fl.BoolVar(&f.printUnit, "print-unit", false, "print a systemd unit that starts the agent with these flags")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if f.hub == "" {
			for _, name := range []string{"name", "max-rate", "max-share", "quiet-hours", "probe-only", "rejoin", "listen", "host", "audit", "user", "unconfined", "print-unit"} {
				if cmd.Flags().Changed(name) {
					return fault.WithHint(fault.Usagef("--%s is of a host of a fleet", name), "add --hub LINK")
				}
			}
			return alone(cmd, args)
		}
		if f.printUnit {
			return a.printUnit("agent", cmd.Flags())
		}
		f.Serve.State, _ = cmd.Flags().GetString("state")
		return a.member(cmd.Context(), f)
	}
}

func (a *console) member(ctx context.Context, f memberFlags) (err error) {
	if f.Hub, err = hub.ParseLink(f.hub, a.Getenv); err != nil {
		return err
	}
	var bad faults
	if f.rate != "" {
		f.Limits.Rate, err = fleet.ParseRate(f.rate)
		bad.add("max-rate", err)
	}
	f.Limits.Share, err = fleet.ParseShare(f.share)
	bad.add("max-share", err)
	if f.quiet != "" {
		f.Limits.Quiet, err = fleet.ParseQuiet(f.quiet)
		bad.add("quiet-hours", err)
	}
	if err := bad.err(); err != nil {
		return err
	}
	m, err := member.Open(ctx, a.world(), f.Config)
	if err != nil {
		return err
	}
	return m.Run(ctx)
}
