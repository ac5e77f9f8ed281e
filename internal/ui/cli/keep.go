package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app/keep"
	"linerate/internal/app/target"
	"linerate/internal/core/model"
	"linerate/internal/core/profile"
	"linerate/internal/fault"
)

// keepFlags say what to keep, and how.
type keepFlags struct {
	setting, role, format, link, state string
	both, dryRun, yes, anyway, list    bool
	despiteGuards                      bool
}

func (a *console) keepCommand() *cobra.Command {
	var f keepFlags
	c := &cobra.Command{
		Use: "keep [PROFILE|SESSION] [HOST]", Short: "make settings permanent: write the files from which the system takes them at its start",
		Long: `keep writes settings into the files of this machine, or of HOST, or with --both of
both, so that they hold after a restart: those of a profile, those of a stored
session that proved better (of several levels of one setting the smallest that is
good enough), or without either those that were confirmed with
linerate set and still hold. The format is that of the program that configures
the interface. The files are shown before you are asked; without a terminal it
takes --yes. Whatever stood in them is saved first, and linerate undo --kept puts
it back, byte for byte, but what was changed since.

No running value changes: what takes effect only at the next start is said.
Settings that were kept before stay. A session without a verdict "better" is
refused unless you wish it by --anyway, and a setting that harms the latency, the
loss or the CPU beyond the guards of its session unless by --despite-guards.`,
		Example: `  linerate keep last root@nas --dry-run
  linerate keep tall.yaml --role receiver
  linerate keep last root@nas --both --setting 4MiB
  linerate keep root@nas --yes
  linerate keep --list`,
		Args: cobra.ArbitraryArgs, // see keepArgs
		RunE: func(cmd *cobra.Command, args []string) error { return a.keep(cmd.Context(), f, args) },
	}
	s := c.Flags()
	s.StringVar(&f.setting, "setting", "", "of a session: name of the setting (default: the one that proved better, of several levels the smallest that is good enough)")
	s.StringVar(&f.role, "role", "", "what HOST is, or this machine without HOST: near, far, sender or receiver")
	s.StringVar(&f.format, "for", "", "format of the files instead of the owner's: "+strings.Join(keepFormats(), ", "))
	s.StringVar(&f.link, "interface", "", "interface that settings of a link are for (this machine only)")
	s.StringVar(&f.state, "state", "", "directory of this machine's journal (default: $LINERATE_STATE, else the system's)")
	s.BoolVar(&f.both, "both", false, "on HOST and on this machine")
	s.BoolVar(&f.dryRun, "dry-run", false, "only show what would be written")
	s.BoolVar(&f.yes, "yes", false, "write without asking")
	s.BoolVar(&f.anyway, "anyway", false, "also what did not prove better")
	s.BoolVar(&f.despiteGuards, "despite-guards", false, "also what a guard of its session refuses")
	s.BoolVar(&f.list, "list", false, "only list what is kept")
	c.MarkFlagsMutuallyExclusive("list", "both")
	return c
}

// keepFormats are the formats of the files that a system reads at its start.
func keepFormats() (names []string) {
	for _, one := range model.FileFormats() {
		if s := one.System(); s != "" && s != "windows" {
			names = append(names, string(one))
		}
	}
	return names
}

// keep runs linerate keep.
func (a *console) keep(ctx context.Context, f keepFlags, args []string) error {
	source, host, err := keepArgs(args)
	if err == nil {
		err = f.check(source, host)
	}
	if err != nil {
		return err
	}
	if f.list {
		return a.listKept(ctx, host, f.state)
	}
	src, err := a.keepSource(ctx, source, host, f)
	if err == nil && !f.dryRun && !f.yes && (!a.InTerminal || !a.ErrTerminal) {
		err = fault.WithHint(fault.Usagef("there is no terminal to ask on"), "show what would be written with --dry-run; write it with --yes")
	}
	if err != nil {
		return err
	}
	hosts, shut, err := keep.Open(ctx, a.world(), a.reach(), a.hereOptions(f.state, f.link), host, f.both)
	if err != nil {
		return err
	}
	defer shut()
	r := keep.Request{
		Source: src, Role: profile.Role(f.role), Format: model.FileFormat(f.format), Link: f.link, Named: target.Redact(host), Both: f.both,
		DryRun: f.dryRun, Sure: f.yes,
	}
	got, err := keep.Do(ctx, a.world(), hosts, r)
	if got.Outcome == "" {
		return err
	}
	return errors.Join(err, a.printKeep(r, got))
}

// check refuses flags that contradict each other.
func (f keepFlags) check(source, host string) error {
	switch {
	case host == "" && f.both:
		return fault.WithHint(fault.Usagef("--both names no HOST"), "linerate keep %s --both HOST", cmp.Or(source, "[SOURCE]"))
	case host != "" && f.link != "":
		return fault.Usagef("--interface is for this machine alone; with HOST the interface between the two is used")
	case host != "" && f.state != "":
		return fault.Usagef("--state is for this machine alone; with HOST set LINERATE_STATE, or write it into the command of exec:")
	case f.format != "" && !slices.Contains(keepFormats(), f.format):
		return fault.WithHint(fault.Usagef("--for: %q is no format that keep writes", f.format), "%sknown are %s", meantWord(f.format, keepFormats()), strings.Join(keepFormats(), ", "))
	case f.list && source != "":
		return fault.WithHint(fault.Usagef("--list names no profile or session"), "linerate keep --list [HOST]")
	}
	return nil
}
