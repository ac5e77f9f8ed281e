package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app"
	"linerate/internal/app/reach"
	"linerate/internal/control/session"
	"linerate/internal/core/model"
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
session that proved better, or without either those that were confirmed with
linerate set and still hold. The format is that of the program that configures
the interface. The files are shown before you are asked; without a terminal it
takes --yes. Whatever stood in them is saved first, and linerate undo --kept puts
it back, byte for byte, but what somebody changed since.

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
	var names []string
	for _, one := range model.FileFormats() {
		if s := one.System(); s != "" && s != "windows" {
			names = append(names, string(one))
		}
	}
	s := c.Flags()
	s.StringVar(&f.setting, "setting", "", "of a session: name of the setting (default: the one that proved better)")
	s.StringVar(&f.role, "role", "", "what HOST is, or this machine without HOST: near, far, sender or receiver")
	s.StringVar(&f.format, "for", "", "format of the files instead of the owner's: "+strings.Join(names, ", "))
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

// How a keep ends.
const (
	keepWritten  = "kept"
	keepHolds    = "nothing to do"
	keepDry      = "dry run"
	keepDeclined = "declined"
	keepFailed   = "failed"
)

// keeping is one keep, on one host or two.
type keeping struct {
	app     *console
	flags   keepFlags
	source  keepSource
	host    string     // HOST as it was written, "" for this machine
	ends    []*keepEnd // the far one first, as for changes
	shut    func()
	outcome string
}

// keepEnd is one host of a keep.
type keepEnd struct {
	host   model.Host
	name   string
	client *session.Client
	facts  model.HostFacts
	ask    session.Keep
	got    session.Keeping // what would be written, then what was
	done   bool
}

// keep carries out one keep.
func (a *console) keep(ctx context.Context, f keepFlags, args []string) error {
	source, host, err := keepArgs(args)
	if err == nil {
		err = f.check(a, source, host)
	}
	if err != nil {
		return err
	}
	if f.list {
		return a.listKept(ctx, host, f.state)
	}
	src, err := a.keepSourceOf(ctx, source, f)
	if err != nil {
		return err
	}
	k := &keeping{app: a, flags: f, source: src, host: host}
	if err := k.open(ctx); err != nil {
		return err
	}
	defer k.shut()
	if err := k.prepare(ctx); err != nil || len(k.ends) == 0 {
		return err
	}
	if err := k.preview(ctx); err != nil {
		return err
	}
	return k.write(ctx)
}

// check refuses flags that cannot be meant.
func (f keepFlags) check(a *console, source, host string) error {
	switch {
	case host == "" && f.both:
		return withHint(usagef("--both names no HOST"), "linerate keep %s --both HOST", cmp.Or(source, "[SOURCE]"))
	case host != "" && f.link != "":
		return usagef("--interface is for this machine alone; with HOST the interface between the two is used")
	case host != "" && f.state != "":
		return usagef("--state is for this machine alone; with HOST set LINERATE_STATE, or write it into the command of exec:")
	case f.format != "" && !slices.Contains(model.FileFormats(), model.FileFormat(f.format)):
		return withHint(usagef("--for: %q is no format", f.format), "see linerate keep --help")
	case f.list && source != "":
		return withHint(usagef("--list names no profile or session"), "linerate keep --list [HOST]")
	case !f.list && !f.dryRun && !f.yes && (!a.InTerminal || !a.ErrTerminal):
		return withHint(usagef("nobody is there to be asked: there is no terminal"), "show what would be written with --dry-run; write it with --yes")
	}
	return nil
}

// hostWord is HOST as it stands behind a command about e.
func (k *keeping) hostWord(e *keepEnd) string {
	if e.host == model.Near || k.host == "" {
		return ""
	}
	return " " + shellWord(reach.Redact(k.host))
}

// shellWord quotes what a shell would take apart.
func shellWord(s string) string {
	if !strings.ContainsAny(s, " \t'\"$&;|<>()*?[]{}~#!\\`") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// preview asks every host what would be written, and shows it.
func (k *keeping) preview(ctx context.Context) error {
	holds, empty := true, true
	for _, e := range k.ends {
		got, err := e.client.Keep(ctx, e.ask)
		if err != nil {
			return keepFault(err, k, e)
		}
		e.got = got
		if err := k.claims(ctx, e); err != nil {
			return err
		}
		empty = empty && len(got.Files) == 0 && len(got.Commands) == 0
		for _, f := range got.Files {
			holds = holds && f.Change == session.FileSame
		}
	}
	k.show(k.talkOut())
	switch {
	case empty:
		return app.WithKind(app.Unsupported, fmt.Errorf("none of these settings can be kept there: %w", errors.ErrUnsupported))
	case k.flags.dryRun:
		k.outcome = keepDry
	case holds:
		k.outcome = keepHolds
	}
	return nil
}

// write asks, writes, and says what became of it.
func (k *keeping) write(ctx context.Context) error {
	if k.outcome != "" {
		return k.print()
	}
	if !k.flags.yes {
		answer, err := k.app.Ask(ctx, app.Question{Kind: app.WriteFiles, Host: k.names()})
		if err != nil {
			return err
		}
		if !answer.Yes {
			k.outcome = keepDeclined
			return k.print()
		}
	}
	k.outcome = keepWritten
	var failed error
	for _, e := range k.ends {
		ask := e.ask
		ask.DryRun, ask.Plan = false, e.got.Plan
		got, err := e.client.Keep(ctx, ask)
		if err != nil {
			k.outcome, failed = keepFailed, errors.Join(keepFault(err, k, e), k.takeBack(ctx))
			break
		}
		got.Notes, e.done = e.got.Notes, true // as they were shown, with who else sets what
		e.got = got
	}
	return errors.Join(failed, k.print())
}

// takeBack takes back what was written on the hosts before the one that failed:
// both keep it or none.
func (k *keeping) takeBack(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, e := range k.ends {
		if !e.done || e.got.Record == "" {
			continue
		}
		back, err := e.client.Restore(ctx, e.got.Record)
		for _, f := range back.Files {
			if f.State != model.FileRestored && f.State != model.FileAlready {
				err = errors.Join(err, fmt.Errorf("%s: %s", f.Path, f.Detail))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: not taken back: %w", e.name, err))
			continue
		}
		e.done = false
		k.app.talk("%s: its files are as they were", e.name)
	}
	return errors.Join(errs...)
}

func (k *keeping) names() string {
	var names []string
	for _, e := range k.ends {
		names = append(names, e.name)
	}
	return strings.Join(names, " and ")
}

// keepFault gives an error of a keep its exit code and hint.
func keepFault(err error, k *keeping, e *keepEnd) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return withHint(err, "files of the system belong to root: run linerate as root; over ssh with --sudo")
	case errors.Is(err, session.ErrBusy):
		return withHint(err, "another linerate writes files there: wait until it has ended")
	case errors.Is(err, session.ErrInvalid):
		return app.WithKind(app.Usage, err)
	case errors.Is(err, session.ErrState):
		return withHint(err, "see what it is now: linerate keep --list%s, and --dry-run", k.hostWord(e))
	}
	return err
}
