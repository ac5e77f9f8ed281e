package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"linerate/internal/app/change"
	"linerate/internal/core/model"
	"linerate/internal/core/profile"
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
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return argsFault(cmd, "takes FILE and at most one HOST", args)
			}
			return nil
		},
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
	p, err := readProfile(file)
	if err != nil {
		return err
	}
	parts, err := castProfile(p, role, host != "", f.both)
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
		for _, w := range assignments(part) {
			w.Host = h
			wanted = append(wanted, w)
		}
	}
	r := f.request(a, wanted)
	if err := r.Check(host != "", f.both); err != nil {
		return err
	}
	hosts, shut, err := a.openChange(ctx, f, host)
	if err != nil {
		return err
	}
	defer shut()
	change.TellProfile(a.world(), hosts, parts)
	return a.change(ctx, f, hosts, r)
}

// castProfile gives the hosts of a change their parts of a profile: the near one
// alone without far, the far one alone without both.
func castProfile(p profile.Profile, role string, far, both bool) (map[model.Host]profile.Host, error) {
	names := p.RoleNames()
	has := func(r profile.Role) bool { return slices.Contains(names, r) }
	pair := has(profile.Sender) || has(profile.Receiver)
	if far && role == "" && !pair && (both || has(profile.Far)) {
		role = string(profile.Far)
	}
	if !both {
		part, err := chooseHost(p, role)
		if err != nil {
			return nil, err
		}
		if far {
			return map[model.Host]profile.Host{model.Far: part}, nil
		}
		return map[model.Host]profile.Host{model.Near: part}, nil
	}
	other, ok := map[profile.Role]profile.Role{
		profile.Near: profile.Far, profile.Far: profile.Near, profile.Sender: profile.Receiver, profile.Receiver: profile.Sender,
	}[profile.Role(role)]
	if !ok || pair != (role == string(profile.Sender) || role == string(profile.Receiver)) {
		want := "near or far"
		if pair {
			want = "sender or receiver"
		}
		return nil, withHint(usagef("--role %q: the profile has settings for %s", role, want), "say what HOST is with --role %s", want)
	}
	parts := map[model.Host]profile.Host{}
	for h, r := range map[model.Host]profile.Role{model.Far: profile.Role(role), model.Near: other} {
		if part, ok := p.Host(r); ok {
			parts[h] = part
		}
	}
	if len(parts) == 0 {
		return nil, errors.New("the profile has no settings")
	}
	return parts, nil
}
