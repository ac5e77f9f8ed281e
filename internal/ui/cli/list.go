package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/report"
	"linerate/internal/report/format"
	"linerate/internal/report/term"
	"linerate/internal/store"
)

// pickFlags select sessions.
type pickFlags struct{ kind, state, host, since, text string }

func (f *pickFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.kind, "kind", "", "only this kind: test, run, sweep, copy, check, mesh, watch, tune or served")
	fl.StringVar(&f.state, "state", "", "only in this state: running, stopped (killed), done, interrupted or failed")
	fl.StringVar(&f.host, "host", "", "only with this text in the near or the far HOST")
	fl.StringVar(&f.text, "text", "", "only with this text in the ID, the title, the note, a HOST or why it ended")
}

// filter returns the filter that the flags describe at the time now.
func (f pickFlags) filter(now time.Time) (store.Filter, error) {
	if err := oneOf("kind", f.kind, sessionKinds()...); err != nil {
		return store.Filter{}, err
	}
	if err := oneOf("state", f.state, sessionStates()...); err != nil {
		return store.Filter{}, err
	}
	since, err := moment("since", f.since, now)
	return store.Filter{Kind: model.Kind(f.kind), State: model.SessionState(f.state), Host: f.host, Since: since, Text: f.text}, err
}

// moment parses a date, or how long ago it was; "" is the zero time.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return day, nil
	}
	ago, err := units.ParseSpan(text)
	if err != nil {
		return time.Time{}, fault.Usagef("--%s: %q is neither a date like 2026-11-21 nor a time like 12h, 7d or 2w", flag, text)
	}
	return now.Add(-ago), nil
}

func oneOf(flag, value string, allowed ...string) error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return fault.Usagef("--%s: %q is unknown; write one of %s", flag, value, strings.Join(allowed, ", "))
}

func sessionKinds() []string {
	return plain.Texts([]model.Kind{model.KindTest, model.KindRun, model.KindSweep, model.KindCopy, model.KindCheck, model.KindMesh, model.KindWatch, model.KindTune, model.KindServed, model.KindImported})
}

func sessionStates() []string {
	return plain.Texts([]model.SessionState{model.SessionRunning, model.SessionStopped, model.SessionDone, model.SessionInterrupted, model.SessionFailed})
}

func (a *console) listCommand() *cobra.Command {
	var pick pickFlags
	var finding string
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "stored sessions, newest first", Args: exactArgs(),
		Long: `list shows the stored sessions: age, kind, state, goodput to the far end and back,
and below it where it was and what it showed. The looks of linerate watch are left out,
unless --kind watch asks for them. --finding takes the code of a finding
(linerate docs diagnosis lists them), a word of its name, as window, or the name of a
line of a check that is POOR or BAD, as loss.`,
		Example: "  linerate list\n  linerate list --kind run --json\n  linerate list --host nas --since 7d\n  linerate list --finding window\n  linerate list --text 'new cable'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := pick.filter(a.Now())
			if err != nil {
				return err
			}
			if limit < 0 {
				return fault.Usagef("--limit: %d is not a number of sessions; 0 is all", limit)
			}
			f.Limit, f.NoLooks = limit, pick.kind == ""
			return a.list(cmd.Context(), f, finding)
		},
	}
	pick.register(c.Flags())
	c.Flags().StringVar(&finding, "finding", "", "only with this finding: its code, as B07, or a word of it, as window")
	c.Flags().StringVar(&pick.since, "since", "", "only since a date (2026-11-21), or in the last 12h, 7d, 2w")
	c.Flags().IntVar(&limit, "limit", 20, "at most so many; 0 is all")
	return c
}

func (a *console) list(ctx context.Context, f store.Filter, finding string) error {
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	l, err := a.listed(ctx, st, f, finding)
	if err != nil {
		return err
	}
	if len(l.Sessions) == 0 && !a.json {
		if finding == "" && f == (store.Filter{Limit: f.Limit, NoLooks: true}) {
			a.talk("no sessions in %s yet; begin with linerate demo or linerate test HOST", st.Path())
		} else {
			a.talk("no such sessions in %s; linerate list shows all", st.Path())
		}
		return nil
	}
	return a.writeList(l)
}

// listed returns the sessions that f selects with a finding, "" for any.
func (a *console) listed(ctx context.Context, st results, f store.Filter, finding string) (report.List, error) {
	l := report.List{Sessions: []report.ListItem{}, Now: a.Now()}
	most := f.Limit
	if finding != "" {
		f.Limit = 0
	}
	items, err := st.Sessions(ctx, f)
	for _, i := range items {
		item, err := listItem(ctx, st, i)
		if errors.Is(err, store.ErrNotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return l, err
		}
		if finding == "" || item.Found(finding) {
			l.Sessions = append(l.Sessions, item)
		}
		if len(l.Sessions) == most && most > 0 {
			break
		}
	}
	return l, err
}

// listItem returns a session as a list shows it.
func listItem(ctx context.Context, st results, i model.Item) (report.ListItem, error) {
	read := st.Brief
	if i.Kind == model.KindCheck { // which is also judged by its hosts
		read = st.Session
	}
	s, err := read(ctx, i.ID)
	if err != nil {
		return report.ListItem{}, err
	}
	item := report.NewListItem(i, s)
	if i.Kind == model.KindTune && i.State == model.SessionDone {
		t, _, ok, err := tunedOf(ctx, st, s)
		if err != nil {
			return item, err
		}
		if ok {
			item.Verdict = t.Line()
		}
	}
	return item, nil
}

// printList writes a list of sessions.
func (a *console) printList(ctx context.Context, st results, items []model.Item) error {
	l := report.List{Sessions: []report.ListItem{}, Now: a.Now()}
	for _, i := range items {
		item, err := listItem(ctx, st, i)
		if err != nil {
			return err
		}
		l.Sessions = append(l.Sessions, item)
	}
	return a.writeList(l)
}

func (a *console) writeList(l report.List) error {
	if a.json {
		return a.document(format.ListSchema, l)
	}
	return term.RenderList(a.Out, l, a.termOptions())
}

// forgetFlags say how sessions are removed.
type forgetFlags struct{ yes, dryRun, force bool }

func (f *forgetFlags) register(fl *pflag.FlagSet) {
	fl.BoolVar(&f.yes, "yes", false, "remove without asking")
	fl.BoolVar(&f.dryRun, "dry-run", false, "only show what would be removed")
	fl.BoolVar(&f.force, "force", false, "also what is running")
}

func (a *console) rmCommand() *cobra.Command {
	var f forgetFlags
	c := &cobra.Command{
		Use: "rm ID...", Aliases: []string{"delete"}, Short: "remove stored sessions",
		Long: `rm removes sessions with all their runs and samples, after it has asked; without a
terminal it takes --yes. An ID is given as for linerate show. A session that is
running is refused. --json lists what was removed.`,
		Example: "  linerate rm last --dry-run\n  linerate rm 20261121T0132 --yes",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fault.WithHint(fault.Usagef("rm takes the IDs of sessions"), "see linerate list, or linerate prune --older-than 30d")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.forget(cmd.Context(), f, func(st results) ([]model.Item, error) {
				all, err := st.Sessions(cmd.Context(), store.Filter{})
				if err != nil {
					return nil, err
				}
				var out []model.Item
				for _, ref := range args {
					s, err := find(cmd.Context(), st, ref)
					if err != nil {
						return nil, err
					}
					i := slices.IndexFunc(all, func(i model.Item) bool { return i.ID == s.ID })
					if s.State == model.SessionRunning && !f.force {
						return nil, fault.WithHint(fault.Usagef("session %s is running", s.ID), "wait until it has ended, or stop it; with --force it is removed while it runs")
					}
					out = lists.Once(out, all[i])
				}
				return out, nil
			})
		},
	}
	f.register(c.Flags())
	return c
}

func (a *console) pruneCommand() *cobra.Command {
	var f forgetFlags
	var pick pickFlags
	var older string
	var keep int
	c := &cobra.Command{
		Use: "prune", Short: "remove old stored sessions", Args: exactArgs(),
		Long: `prune removes the sessions that --older-than, --kind, --state, --host and --text choose,
but the newest --keep of them, after it has asked; without a terminal it takes --yes.
What is running stays. --json lists what was removed.`,
		Example: "  linerate prune --older-than 30d --dry-run\n  linerate prune --kind test --keep 50 --yes\n  linerate prune --state failed",
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := pick.filter(a.Now())
			if err != nil {
				return err
			}
			before, err := moment("older-than", older, a.Now())
			if err != nil {
				return err
			}
			if keep < 0 {
				return fault.Usagef("--keep: %d is not a number of sessions", keep)
			}
			if filter == (store.Filter{}) && older == "" && keep == 0 {
				return fault.WithHint(fault.Usagef("prune would remove every session"), "say which: --older-than 30d, --keep 50, --kind, --state, --host or --text")
			}
			return a.forget(cmd.Context(), f, func(st results) ([]model.Item, error) {
				all, err := st.Sessions(cmd.Context(), filter)
				return old(all, before, keep, f.force), err
			})
		},
	}
	pick.register(c.Flags())
	c.Flags().StringVar(&older, "older-than", "", "only what is older than 12h, 30d or 8w, or from before a date (2026-11-21)")
	c.Flags().IntVar(&keep, "keep", 0, "keep the newest so many of what the other flags choose")
	f.register(c.Flags())
	return c
}

// old returns the sessions to remove, from a list with the newest first: all except the newest
// keep, only those before before if that is not zero, and running ones only if running is set.
func old(all []model.Item, before time.Time, keep int, running bool) []model.Item {
	return slices.DeleteFunc(slices.Clone(all[min(keep, len(all)):]), func(i model.Item) bool {
		return !before.IsZero() && !i.Created.Before(before) || i.State == model.SessionRunning && !running
	})
}

// forget removes the sessions that pick returns, after a person has confirmed.
func (a *console) forget(ctx context.Context, f forgetFlags, pick func(results) ([]model.Item, error)) error {
	if !f.dryRun && !f.yes && (!a.InTerminal || !a.ErrTerminal) {
		return fault.WithHint(fault.Usagef("there is no terminal to ask on"), "see what would be removed with --dry-run; remove it with --yes")
	}
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	items, err := pick(st)
	if err != nil {
		return err
	}
	if len(items) == 0 && !a.json {
		a.talk("nothing to remove")
		return nil
	}
	if err := a.printList(ctx, st, items); err != nil || f.dryRun || len(items) == 0 {
		if err == nil && len(items) > 0 {
			a.talk("%s would be removed", plain.Count(len(items), "session"))
		}
		return err
	}
	if !f.yes {
		answer, err := a.agreed(ctx, fmt.Sprintf("remove %s for good? [y/N] ", plain.Count(len(items), "session")))
		if err != nil || !answer.Yes {
			a.talk("nothing was removed")
			return err
		}
	}
	ids := make([]string, len(items))
	for n, i := range items {
		ids[n] = i.ID
	}
	if err := st.Remove(ctx, ids...); err != nil {
		return err
	}
	a.talk("removed %s from %s", plain.Count(len(ids), "session"), st.Path())
	return nil
}
