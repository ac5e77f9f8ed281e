package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/control/session"
	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	hostknob "linerate/internal/host/knob"
)

// check reports everything that is wrong with the change on any of its hosts, and warns about
// what is unwise.
func (c *change) check() error {
	for _, e := range c.changing() {
		if err := app.MayTune(e.Client, "nothing can be set"); err != nil {
			return err
		}
	}
	if err := c.settleMTU(); err != nil {
		return err
	}
	var errs []error
	unsupported := true
	for _, e := range c.changing() {
		before := values(e.Host)
		for _, err := range c.faults(e) {
			unsupported = unsupported && errors.Is(err, errors.ErrUnsupported)
			if len(c.ends) > 1 || e.Side == model.Far {
				err = fmt.Errorf("%s: %w", e.Name, err)
			}
			errs = append(errs, err)
		}
		for _, advice := range knob.Advice(e.Facts.OS, before, e.wanted) {
			c.Observe(app.Advised{Host: e.Name, Advice: advice})
		}
		if !c.AtBoot {
			TellLasting(c.Env, e.Name, e.Facts.OS, e.wanted, c.Within)
		}
	}
	if len(errs) > 0 {
		kind := fault.Usage
		if unsupported {
			kind = fault.Unsupported
		}
		err := fault.WithKind(kind, errors.Join(errs...))
		if c.linkMissing() {
			return fault.WithHint(err, "name the interface with --interface; known are %s", local.LinkNames())
		}
		return c.hintMTU(err)
	}
	c.noteOneSided()
	return nil
}

// faults returns what is wrong with the settings wanted on a host.
func (c *change) faults(e *end) []error {
	if faults := c.Catalogue.Faults(e.Facts.OS, values(e.Host), e.wanted); len(faults) > 0 {
		return faults
	}
	var errs []error
	for _, w := range e.wanted {
		if f := e.Facts.Knobs[w.Knob]; !f.IsKnown() {
			errs = append(errs, app.Missing(cmp.Or(f.Reason(), string(w.Knob)+" is not known there")))
		}
	}
	return errs
}

// TellLasting reports which of the wanted settings a restart of the host would not undo.
// within is how long they are held, 0 for a run; system is the host's GOOS.
func TellLasting(env app.Env, name, system string, wanted []model.Assignment, within time.Duration) {
	var all []model.KnobID
	for _, w := range wanted {
		k, _ := env.Catalogue.ByID(w.Knob) // a flow knob has no place, and unknown knobs are reported elsewhere
		n, ok := k.Native[system]
		if place := (hostknob.Place{Mechanism: n.Mechanism}); ok && n.Mechanism != knob.NotYet && !place.Volatile() && !slices.Contains(all, w.Knob) {
			all = append(all, w.Knob)
		}
	}
	if len(all) > 0 {
		env.Observe(app.Lasting{Host: name, Knobs: all, Within: within})
	}
}

// noteOthers reports which programs may set the same settings again while the change holds.
func (c *change) noteOthers(ctx context.Context) error {
	return c.eachClaim(ctx, func(e *end, one model.Claim) error {
		if one.Manager.AtWork() && one.Manager != model.ManagerLinerate { // the change fails on its own if linerate has a claim
			c.Observe(app.SetAgain{Host: e.Name, Claim: one})
		}
		return nil
	})
}

// eachClaim calls f for the last claim on each setting that the change is about.
func (c *change) eachClaim(ctx context.Context, f func(*end, model.Claim) error) error {
	for _, e := range c.changing() {
		ids := lists.Each(e.wanted, func(w model.Assignment) model.KnobID { return w.Knob })
		all, err := LastClaims(ctx, e.Client, ids)
		if err != nil {
			return err
		}
		for _, one := range all {
			if err := f(e, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// LastClaims returns the last active claim on each knob. An agent without support for claims
// has none.
func LastClaims(ctx context.Context, c *session.Client, ids []model.KnobID) ([]model.Claim, error) {
	all, err := c.Claims(ctx, ids)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	last := make(map[model.KnobID]model.Claim)
	for _, one := range all {
		if one.Active.Or(true) {
			last[one.Knob] = one
		}
	}
	out := lists.Each(slices.Sorted(maps.Keys(last)), func(id model.KnobID) model.Claim { return last[id] })
	return out, err
}

// noteOneSided reports settings that only one end gets although both should have them.
func (c *change) noteOneSided() {
	c.noteMTU()
	for _, e := range c.changing() {
		for _, w := range e.wanted {
			k, _ := c.Catalogue.ByID(w.Knob)
			if k.NeedsBoth && k.ID != mtuKnob && len(c.changing()) == 1 {
				c.Observe(app.OneSided{Knob: w.Knob})
			}
		}
	}
}

// linkMissing reports whether a setting of a link is wanted although no link is named.
func (c *change) linkMissing() bool {
	return c.hosts.Far == nil && c.hosts.Link == "" && slices.ContainsFunc(c.ends[0].wanted, func(w model.Assignment) bool {
		k, _ := c.Catalogue.ByID(w.Knob)
		return k.Scope == knob.ScopeLink && k.Writable(c.ends[0].Facts.OS) == nil
	})
}
