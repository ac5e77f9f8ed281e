// Package keep makes settings permanent: it has hosts write the files that their systems read
// at boot, on all of the hosts or on none, after the user has seen what would be written. It
// also restores the files.
package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"linerate/internal/app"
	"linerate/internal/app/change"
	"linerate/internal/app/local"
	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/profile"
	"linerate/internal/fault"
)

// Request says what to keep, and how.
type Request struct {
	Source Source
	Role   profile.Role     // of the far host, or of this machine alone; "" follows from the source
	Format model.FileFormat // of the files; "" is that of the program that configures the interface
	Link   string           // interface that settings of a link are for, of this machine alone
	Named  string           // the far host as the user named it, without secrets; "" for this machine
	Both   bool             // include both ends, even if one has nothing to keep
	DryRun bool             // only show what would be written
	Sure   bool             // write without asking
}

// Outcome is how a keep ended.
type Outcome string

// The outcomes.
const (
	Written  Outcome = "kept"
	Holds    Outcome = "nothing to do"
	Dry      Outcome = "dry run"
	Declined Outcome = "declined"
	Failed   Outcome = "failed"
)

// Keeping is what was written on a host, or would be.
type Keeping = session.Keeping

// Record is what one keep wrote on a host, until it is restored.
type Record = session.KeptRecord

// Result is how a keep ended.
type Result struct {
	Outcome Outcome // "" if it was refused
	Hosts   []*Host // on which something is kept, or would be; the far one first
}

// Host is one host of a keep.
type Host struct {
	*app.Host
	Ask  session.Keep
	Got  session.Keeping // what would be written, then what was
	Done bool            // it is written
}

// keeping is one keep that is being carried out.
type keeping struct {
	app.Env
	Request
	hosts   []*Host
	outcome Outcome
}

// Do keeps settings on open hosts, the far one first. The caller closes their sessions. Do
// reports what would be written as app.ToWrite, and then asks the user app.WriteFiles. The
// result is valid beside an error too.
func Do(ctx context.Context, env app.Env, hosts []*app.Host, r Request) (Result, error) {
	k := &keeping{Env: env, Request: r}
	for _, h := range hosts {
		k.hosts = append(k.hosts, &Host{Host: h})
	}
	err := k.prepare(ctx)
	if err == nil && k.outcome == "" {
		err = k.preview(ctx)
	}
	if err == nil && k.outcome == "" {
		err = k.write(ctx)
	}
	return Result{Outcome: k.outcome, Hosts: k.hosts}, err
}

// prepare finds the settings of each host, and reports everything that is wrong with them. It
// drops hosts without settings.
func (k *keeping) prepare(ctx context.Context) error {
	var errs, others []error
	unsupported := true
	var left []*Host
	for _, h := range k.hosts {
		if err := app.MayTune(h.Client, "nothing can be kept"); err != nil {
			return err
		}
		other, err := k.settings(ctx, h)
		if err != nil && other && len(k.hosts) > 1 {
			others = append(others, err)
			k.Observe(app.NothingToKeep{Host: h.Name})
			continue
		}
		if err != nil {
			return err
		}
		left = append(left, h)
		for _, err := range h.faults(k.Catalogue) {
			unsupported = unsupported && errors.Is(err, errors.ErrUnsupported)
			errs = append(errs, fmt.Errorf("%s: %w", h.Name, err))
		}
	}
	if len(left) == 0 {
		return others[0]
	}
	k.hosts = left
	if len(errs) > 0 {
		kind := fault.Usage
		if unsupported {
			kind = fault.Unsupported
		}
		err := fault.WithKind(kind, errors.Join(errs...))
		if k.Named == "" && k.Link == "" && slices.ContainsFunc(left[0].Ask.Settings, k.ofLink) {
			return fault.WithHint(err, "name the interface with --interface; known are %s", local.LinkNames())
		}
		return err
	}
	return k.withoutWindows()
}

func (k *keeping) ofLink(s model.Assignment) bool {
	c, _ := k.Catalogue.ByID(s.Knob)
	return c.Scope == knob.ScopeLink
}

// settings prepares the request to one host. other means that there is nothing for this host
// but perhaps for the other one.
func (k *keeping) settings(ctx context.Context, h *Host) (other bool, err error) {
	h.Ask = session.Keep{Source: k.Source.Label, Format: k.Format, Link: cmp.Or(k.Link, h.Facts.Interface.Or("")), DryRun: true}
	if k.Source.Confirmed {
		return k.confirmed(ctx, h)
	}
	part, other, err := k.Source.hostFor(h.Side, k.Role, len(k.hosts) == 1)
	if err != nil {
		return other, err
	}
	h.Ask.Settings, h.Ask.Comments = change.Assignments(part), k.Source.Profile.Comments(part)
	role, err := k.Source.roleFor(h.Side, k.Role, len(k.hosts) == 1)
	if err == nil {
		h.Ask.Proof, err = k.Source.proofFor(h.Side, role)
	}
	if err != nil {
		return false, err
	}
	for _, doubt := range part.Doubts(h.Facts) {
		k.Observe(app.Doubted{Host: h.Name, Doubt: doubt})
	}
	for _, s := range h.Ask.Settings {
		if c, _ := k.Catalogue.ByID(s.Knob); c.NeedsBoth && !k.Both {
			k.Observe(app.OneSided{Knob: s.Knob})
		}
	}
	return false, nil
}

// confirmed requests to keep what was confirmed on a host.
func (k *keeping) confirmed(ctx context.Context, h *Host) (other bool, err error) {
	all, err := h.Client.Confirmed(ctx)
	if err != nil {
		return false, err
	}
	h.Facts.Knobs = maps.Clone(h.Facts.Knobs)
	link := ""
	for _, c := range all {
		switch {
		case !c.Holds:
			k.Observe(app.NotKept{Host: h.Name, Setting: c})
			continue
		case c.Link != "" && link != "" && c.Link != link, c.Link != "" && k.Link != "" && c.Link != k.Link:
			return false, fault.WithHint(fault.Usagef("settings of several links were confirmed on %s", h.Name), "keep them from a profile each, with --interface NAME")
		case c.Link != "":
			link = c.Link
		}
		h.Ask.Settings = append(h.Ask.Settings, model.Assignment{Knob: c.Knob, Value: c.Value})
		// The facts may be those of another link, or of none.
		h.Facts.Knobs[c.Knob] = fact.Known(c.Value, "confirmed, and read again")
	}
	if len(h.Ask.Settings) == 0 {
		return true, fault.WithHint(fault.Usagef("nothing was confirmed on %s with linerate set that still holds", h.Name),
			"name a profile or a session, or change something first: linerate set KNOB=VALUE...")
	}
	h.Ask.Link = cmp.Or(link, h.Ask.Link)
	p := k.Source.proven(h.Side, h.Ask.Settings)
	if p == nil {
		h.Ask.Comments = []string{"confirmed by hand with linerate set; not measured"}
		return false, nil
	}
	h.Ask.Comments = []string{fmt.Sprintf("confirmed with linerate set; proved better in session %s, setting %q", p.Session, p.Setting)}
	h.Ask.Proof, err = p.Text()
	return false, err
}

// withoutWindows drops hosts whose system makes everything permanent by itself.
func (k *keeping) withoutWindows() error {
	var rest []*Host
	for _, h := range k.hosts {
		if h.Facts.OS != "windows" {
			rest = append(rest, h)
			continue
		}
		var open []string
		for _, r := range h.Running() {
			if !r.Same {
				open = append(open, fmt.Sprintf("%s=%s", r.Knob, r.Kept))
			}
		}
		if len(open) > 0 {
			return fault.New(fault.Unsupported, fmt.Errorf("%s runs Windows, which has no files for settings: what is set there stays over a restart", h.Name),
				"set and confirm it: linerate set %s%s\nor carry it there as a file: linerate export --for windows-reg", strings.Join(open, " "), k.Word(h.Side))
		}
		k.Observe(app.KeptAlready{Host: h.Name})
	}
	if k.hosts = rest; len(rest) == 0 {
		k.outcome = Holds
	}
	return nil
}

// Word returns the far host as an argument of a command about a side, after a blank; "" for
// this machine.
func (r Request) Word(side model.Host) string {
	if side == model.Near || r.Named == "" {
		return ""
	}
	return " " + plain.ShellWord(r.Named)
}

// preview asks every host what it would write, and shows it.
func (k *keeping) preview(ctx context.Context) error {
	holds, empty := true, true
	for _, h := range k.hosts {
		got, err := h.Client.Keep(ctx, h.Ask)
		if err != nil {
			return k.fault(err, h)
		}
		h.Got = got
		if err := k.claims(ctx, h); err != nil {
			return err
		}
		empty = empty && len(got.Files) == 0 && len(got.Commands) == 0
		for _, f := range got.Files {
			holds = holds && f.Change == session.FileSame
		}
	}
	for _, h := range k.hosts {
		k.Observe(app.ToWrite{Host: h.Name, Files: h.Got})
	}
	switch {
	case empty:
		return fault.WithKind(fault.Unsupported, fault.WithHint(errors.New("none of these settings can be kept there"), "%s", strings.Join(k.omitted(), "; ")))
	case k.DryRun:
		k.outcome = Dry
	case holds:
		k.outcome = Holds
	}
	return nil
}

// omitted returns why settings are left out, and what to do about it, each reason once.
func (k *keeping) omitted() (reasons []string) {
	for _, h := range k.hosts {
		for _, o := range h.Got.Omitted {
			if r := plain.Line(o.Reason); !slices.Contains(reasons, r) {
				reasons = append(reasons, r)
			}
		}
	}
	return reasons
}

// claims adds notes on other programs that set what is kept. An agent without support for
// claims is not an error.
func (k *keeping) claims(ctx context.Context, h *Host) error {
	ids := lists.Each(h.Ask.Settings, func(s model.Assignment) model.KnobID { return s.Knob })
	all, err := change.LastClaims(ctx, h.Client, ids)
	if err != nil {
		return err
	}
	for _, c := range all {
		ours := slices.ContainsFunc(h.Got.Files, func(f session.KeepFile) bool { return f.Path == c.File })
		_, named := h.Got.Others[c.Knob]
		named = named || slices.ContainsFunc(h.Got.Omitted, func(o model.Omission) bool {
			return o.Knob == c.Knob && o.By.File == c.File && o.By.Number == c.Line
		})
		if !ours && !named && !overruled(c, h.Got) {
			h.Got.Notes = append(h.Got.Notes, c.String())
		}
	}
	return nil
}

// overruled reports whether a claim is about a value that no longer holds once the files are
// written: of a file of sysctl.d(5), which orders the files of all folders by their names,
// or of the program whose own file gets the setting of a link, and was proven to keep it.
func overruled(c model.Claim, k session.Keeping) bool {
	if slices.ContainsFunc(k.Omitted, func(o model.Omission) bool { return o.Knob == c.Knob }) {
		return false
	}
	if group, _, _ := strings.Cut(string(c.Knob), "."); group == "link" || group == "nic" {
		return string(c.Manager) == string(k.Format)
	}
	folder := func(file string) bool { return path.Base(path.Dir(file)) == "sysctl.d" }
	return !c.Manager.AtWork() && folder(c.File) && slices.ContainsFunc(k.Files, func(f session.KeepFile) bool {
		return folder(f.Path) && path.Base(f.Path) > path.Base(c.File)
	})
}

// write asks the user, and writes the files.
func (k *keeping) write(ctx context.Context) error {
	if !k.Sure {
		answer, err := k.Ask(ctx, k.question())
		if errors.Is(err, app.ErrNoTerminal) {
			return fault.WithHint(fault.Usagef("there is no terminal to ask on"), "show what would be written with --dry-run; write it with --yes")
		}
		if err != nil {
			return err
		}
		if !answer.Yes {
			k.outcome = Declined
			return nil
		}
	}
	k.outcome = Written
	for _, h := range k.hosts {
		ask := h.Ask
		ask.DryRun, ask.Plan = false, h.Got.Plan
		got, err := h.Client.Keep(ctx, ask)
		if err != nil {
			k.outcome = Failed
			return errors.Join(k.fault(err, h), k.takeBack(ctx))
		}
		got.Notes, h.Done = h.Got.Notes, true // as shown, with the other programs that set these
		h.Got = got
	}
	return nil
}

func (k *keeping) question() app.Question {
	q := app.Question{Kind: app.WriteFiles}
	var names []string
	for _, h := range k.hosts {
		names = append(names, h.Name)
		q.Count += len(h.Got.Files)
	}
	q.Host = strings.Join(names, " and ")
	return q
}

// takeBack restores the files on the hosts that were written before the one that failed: both
// keep the settings or neither does.
func (k *keeping) takeBack(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, h := range k.hosts {
		if !h.Done || h.Got.Record == "" {
			continue
		}
		back, err := h.Client.Restore(ctx, h.Got.Record)
		for _, f := range back.Files {
			if f.State != model.FileRestored && f.State != model.FileAlready {
				err = errors.Join(err, fmt.Errorf("%s: %s", f.Path, f.Detail))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: not taken back: %w", h.Name, err))
			continue
		}
		h.Done = false
		k.Observe(app.TakenBack{Host: h.Name})
	}
	return errors.Join(errs...)
}

// fault gives an error of a keep its kind and hint.
func (k *keeping) fault(err error, h *Host) error {
	switch {
	case errors.Is(err, session.ErrInvalid):
		return fault.WithKind(fault.Usage, err)
	case errors.Is(err, session.ErrState):
		return fault.WithHint(err, "see what it is now: linerate keep --list%s, and --dry-run", k.Word(h.Side))
	}
	return filesFault(err)
}

// filesFault adds a hint to an error about files of a system.
func filesFault(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fault.WithHint(err, "files of the system belong to root: run linerate as root; over ssh with --sudo")
	case errors.Is(err, session.ErrBusy):
		return fault.WithHint(err, "another linerate writes files there: wait until it has ended")
	}
	return err
}
