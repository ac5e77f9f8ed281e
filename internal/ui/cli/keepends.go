package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/app"
	"linerate/internal/app/here"
	"linerate/internal/app/reach"
	"linerate/internal/control/session"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/profile"
)

// open opens the hosts and reads them.
func (k *keeping) open(ctx context.Context) error {
	a := k.app
	if k.host == "" {
		h, err := here.Open(ctx, a.world(), a.hereOptions(k.flags.state, k.flags.link))
		if err != nil {
			return err
		}
		k.shut = func() { a.world().HangUp(h.Client) }
		k.ends = []*keepEnd{{host: model.Near, name: h.Name, client: h.Client, facts: h.Facts}}
		return nil
	}
	near, far, err := reach.Pair("", k.host, a.Getenv)
	if err == nil {
		err = hasFiles(far)
	}
	if err != nil {
		return err
	}
	e, err := a.reach().Open(ctx, near, far)
	if err != nil {
		return err
	}
	k.shut = e.Close
	k.ends = []*keepEnd{{host: model.Far, name: cmp.Or(e.Hosts[1].Name, e.Far.Name()), client: e.Far, facts: e.Hosts[1]}}
	if k.flags.both {
		k.ends = append(k.ends, &keepEnd{host: model.Near, name: cmp.Or(e.Hosts[0].Name, app.ThisMachine), client: e.Near, facts: e.Hosts[0]})
		if k.ends[0].name == k.ends[1].name { // of a container, say
			for _, end := range k.ends {
				end.name += " (" + end.client.Name() + ")"
			}
		}
	}
	return nil
}

// hasFiles refuses hosts on which nothing can be kept.
func hasFiles(t reach.Target) error {
	switch t.Kind {
	case reach.Lab:
		return app.WithKind(app.Unsupported, errors.New("a lab ends with its command, and its files are those of this machine: nothing can be kept in it"))
	case reach.Foreign:
		return app.WithKind(app.Unsupported, fmt.Errorf("%s has no settings that linerate could keep", t))
	case reach.Here, reach.Exec, reach.SSH, reach.Serve:
	}
	return nil
}

// prepare finds the settings of each host, and reports everything that is wrong
// with them. A host that has none drops out.
func (k *keeping) prepare(ctx context.Context) error {
	var errs, others []error
	unsupported := true
	var left []*keepEnd
	for _, e := range k.ends {
		if !e.client.CanTune() {
			return withHint(app.WithKind(app.Unsupported, fmt.Errorf("%s measures only: nothing can be kept there", e.client.Name())),
				"reach it over ssh, as in user@host, or start its agent by a command: exec:ADDRESS COMMAND...")
		}
		other, err := k.settings(ctx, e)
		if err != nil && other && len(k.ends) > 1 {
			others = append(others, err)
			k.app.talk("note: nothing to keep on %s", e.name)
			continue
		}
		if err != nil {
			return err
		}
		left = append(left, e)
		for _, err := range e.faults() {
			unsupported = unsupported && errors.Is(err, errors.ErrUnsupported)
			errs = append(errs, fmt.Errorf("%s: %w", e.name, err))
		}
	}
	if len(left) == 0 {
		return others[0]
	}
	k.ends = left
	if len(errs) > 0 {
		kind := app.Usage
		if unsupported {
			kind = app.Unsupported
		}
		err := app.WithKind(kind, errors.Join(errs...))
		if k.host == "" && k.flags.link == "" && slices.ContainsFunc(left[0].ask.Settings, ofLink) {
			return withHint(err, "name the interface with --interface; known are %s", here.LinkNames())
		}
		return err
	}
	return k.endsOfWindows()
}

func ofLink(s model.Assignment) bool {
	c, _ := knob.ByID(s.Knob)
	return c.Scope == knob.ScopeLink
}

// settings puts together what to ask of one host. other says that there is
// nothing for this host where the other one may have something.
func (k *keeping) settings(ctx context.Context, e *keepEnd) (other bool, err error) {
	e.ask = session.Keep{Source: k.source.label, Format: model.FileFormat(k.flags.format), Link: e.facts.Interface.Or(k.flags.link), DryRun: true}
	if k.flags.link != "" {
		e.ask.Link = k.flags.link
	}
	if k.source.confirmed {
		return k.confirmed(ctx, e)
	}
	h, other, err := k.source.hostFor(e.host, k.flags, len(k.ends) == 1)
	if err != nil {
		return other, err
	}
	e.ask.Settings, e.ask.Comments = assignments(h), whyComments(k.source.profile, h)
	for _, doubt := range h.Doubts(e.facts) {
		k.app.talk("note: %s: %s", e.name, doubt)
	}
	for _, s := range e.ask.Settings {
		if c, _ := knob.ByID(s.Knob); c.NeedsBoth && !k.flags.both {
			k.app.talk("note: %s is useful only when both ends agree", s.Knob)
		}
	}
	return false, nil
}

// confirmed asks for what a person confirmed on a host.
func (k *keeping) confirmed(ctx context.Context, e *keepEnd) (other bool, err error) {
	all, err := e.client.Confirmed(ctx)
	if err != nil {
		return false, err
	}
	link := ""
	for _, c := range all {
		switch {
		case !c.Holds:
			k.app.talk("not kept on %s: %s (%s) was confirmed and holds no more: %s", e.name, c.Knob, c.Native, cmp.Or(c.Detail, "changed since"))
			continue
		case c.Link != "" && link != "" && c.Link != link, c.Link != "" && k.flags.link != "" && c.Link != k.flags.link:
			return false, withHint(usagef("settings of several links were confirmed on %s", e.name), "keep them from a profile each, with --interface NAME")
		case c.Link != "":
			link = c.Link
		}
		e.ask.Settings = append(e.ask.Settings, model.Assignment{Knob: c.Knob, Value: c.Value})
	}
	if len(e.ask.Settings) == 0 {
		return true, withHint(usagef("nothing was confirmed on %s with linerate set that still holds", e.name),
			"name a profile or a session, or change something first: linerate set KNOB=VALUE...")
	}
	e.ask.Link = cmp.Or(link, e.ask.Link)
	e.ask.Comments = []string{"confirmed by hand with linerate set; nobody measured it"}
	return false, nil
}

// faults are everything that is wrong with keeping the settings on a host. What
// is read at the start of the machine only may be kept, though nobody can try it.
func (e *keepEnd) faults() []error {
	if e.facts.OS == "windows" {
		return nil // it is told what to do instead
	}
	before := make(knob.Values)
	for id, f := range e.facts.Knobs {
		if text, ok := f.Get(); ok {
			before[id] = text
		}
	}
	var errs []error
	for _, err := range knob.Faults(e.facts.OS, before, e.ask.Settings) {
		var about *knob.Error
		if errors.As(err, &about) && atBootOnly(about.Knob, e.facts.OS) {
			continue
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return errs
	}
	for _, s := range e.ask.Settings {
		if f := e.facts.Knobs[s.Knob]; !f.IsKnown() && !atBootOnly(s.Knob, e.facts.OS) && !e.elsewhere(s.Knob) {
			errs = append(errs, missing(cmp.Or(f.Reason(), string(s.Knob)+" is not known there")))
		}
	}
	return errs
}

// missing is why a host has no value of a knob, in the host's own words.
type missing string

func (m missing) Error() string        { return string(m) }
func (m missing) Is(target error) bool { return target == errors.ErrUnsupported }

// elsewhere reports whether a knob is one of a link that was confirmed, and not
// of the link whose facts were read.
func (e *keepEnd) elsewhere(id model.KnobID) bool {
	k, _ := knob.ByID(id)
	return k.Scope == knob.ScopeLink && e.ask.Link != "" && e.ask.Link != e.facts.Interface.Or("")
}

// atBootOnly reports whether a system reads a knob at its start only.
func atBootOnly(id model.KnobID, system string) bool {
	k, ok := knob.ByID(id)
	n, has := k.Native[system]
	return ok && has && !k.ReadOnly && !n.ReadOnly && n.Mechanism != knob.NotYet && k.EffectOn(system) == knob.EffectBoot
}

// endsOfWindows lets hosts drop out that keep everything by themselves.
func (k *keeping) endsOfWindows() error {
	var rest []*keepEnd
	for _, e := range k.ends {
		if e.facts.OS != "windows" {
			rest = append(rest, e)
			continue
		}
		var open []string
		for _, r := range e.running() {
			if !r.Same {
				open = append(open, fmt.Sprintf("%s=%s", r.Knob, r.Kept))
			}
		}
		if len(open) > 0 {
			return withHint(app.WithKind(app.Unsupported, fmt.Errorf("%s runs Windows, which has no files for settings: what is set there stays over a restart", e.name)),
				"set and confirm it: linerate set %s%s\nor carry it there as a file: linerate export --for windows-reg", strings.Join(open, " "), k.hostWord(e))
		}
		k.app.talk("%s runs Windows, which keeps what is set over a restart: all of it is kept already; linerate export --for windows-reg writes it as a file", e.name)
	}
	if k.ends = rest; len(rest) == 0 {
		k.outcome = keepHolds
		return k.print()
	}
	return nil
}

// running is a kept setting beside the value that the host has now.
type running struct {
	Knob model.KnobID `json:"knob"`
	Kept string       `json:"kept"`
	Now  *string      `json:"now"` // null: not known
	Same bool         `json:"same"`
}

// running compares what is kept with what holds.
func (e *keepEnd) running() []running {
	var all []running
	h := profile.Host{}
	for _, s := range slices.Concat(e.ask.Settings, e.got.Added) {
		if !slices.ContainsFunc(e.got.Omitted, func(o model.Omission) bool { return o.Knob == s.Knob }) {
			h.Settings = append(h.Settings, profile.Setting{Knob: s.Knob, Value: s.Value})
		}
	}
	for _, d := range h.Diff(e.facts.Knobs) {
		one := running{Knob: d.Knob, Kept: d.Want, Same: d.Same}
		if v, ok := d.Now.Get(); ok {
			one.Now = &v
		}
		all = append(all, one)
	}
	return all
}
