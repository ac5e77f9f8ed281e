package cli

import (
	"context"

	"github.com/spf13/cobra"

	"linerate/internal/app/change"
	"linerate/internal/core/model"
)

func (a *console) profileApply() *cobra.Command {
	var f setFlags
	var role string
	c := &cobra.Command{
		Use: "apply FILE [HOST]", Short: "set what a profile says, and keep it if you confirm",
		Long: `apply sets the settings of a profile on this machine, on HOST, or with --both on
both as one change, exactly as linerate set does: all faults first, a deadline, and
your confirmation over a new connection. Where a host differs from the one that the
settings were tried on, you are told.

The settings for the near end are this machine's and those for the far end HOST's.
Those for a sender or receiver go where --role says: it is the role of the one host
that is changed, and with --both that of HOST. What is for either end goes to all.`,
		Example: `  linerate profile apply tall.yaml --role near --for 5m
  linerate profile apply tall.yaml root@nas --both
  linerate profile apply tall.yaml root@nas --both --role receiver`,
		Args: someArgs(1, 2, "FILE and at most one HOST"),
	}
	roleFlag(c, &role)
	a.bindAtBoot(c.Flags())
	f.register(c.Flags())
	c.RunE = func(cmd *cobra.Command, args []string) error {
		host := ""
		if len(args) > 1 {
			host = args[1]
		}
		return a.applyProfile(cmd.Context(), f, args[0], host, role)
	}
	return c
}

func (a *console) applyProfile(ctx context.Context, f setFlags, file, host, role string) error {
	p, err := a.readProfile(file)
	if err != nil {
		return err
	}
	parts, err := change.CastProfile(p, role, host != "", f.both)
	if err == nil {
		err = f.check(host)
	}
	if err != nil {
		return err
	}
	var wanted []model.Assignment
	for _, h := range []model.Host{model.Far, model.Near} {
		part, ok := parts[h]
		if !ok {
			continue
		}
		for _, w := range change.Assignments(part) {
			w.Host = h
			wanted = append(wanted, w)
		}
	}
	r := f.request(a, wanted)
	if err := r.Check(host != "", f.both); err != nil {
		return err
	}
	hosts, shut, err := change.Open(ctx, a.world(), a.reach(), a.hereOptions(f.state, f.link), host, f.both)
	if err != nil {
		return err
	}
	defer shut()
	change.TellProfile(a.world(), hosts, parts)
	return a.change(ctx, f, hosts, r)
}
