// Package change changes the settings of one host, or of two as one transaction: it reports
// everything that is wrong before it writes anything, changes the hosts in an order in which
// they stay reachable, proves the change, and keeps it on all hosts or on none. If it is cut
// short, the hosts roll back by themselves.
package change

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/session"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Request says what to change, and how.
type Request struct {
	Wanted   []model.Assignment // canonical; one without a host is for every host that is changed
	Within   time.Duration      // until the old values are restored unless confirmed
	Canaries []string           // addresses, HOST:PORT or URLs that must answer as before
	Around   bool               // use a work-around if only paths beyond the other end fail
	AtBoot   bool               // a boot job undoes what is still open at the next start of the hosts
}

// MaxCanaries is how many canaries a request may name: session.MaxTargets, less the gateway
// and the other end.
const MaxCanaries = session.MaxTargets - 2

// Check refuses a request that makes no sense. both means that this machine and another host
// are changed, far that another host is.
func (r Request) Check(far, both bool) error {
	if r.Within < session.MinDeadline || r.Within > session.MaxDuration {
		return fault.Usagef("--for %s: want 1s to 24h", units.FormatDuration(r.Within))
	}
	if len(r.Canaries) > MaxCanaries {
		return fault.Usagef("--canary: at most %d", MaxCanaries)
	}
	for _, c := range r.Canaries {
		if err := probe.Valid(c); err != nil {
			return fault.Usagef("--canary %w", err)
		}
		if scheme, _, ok := strings.Cut(c, "://"); ok && scheme != "http" && scheme != "https" {
			return fault.Usagef("--canary %q: want a URL of http or https", c)
		}
	}
	for _, w := range r.Wanted {
		switch {
		case w.Host == model.Far && !far:
			return fault.WithHint(fault.Usagef("%s: no HOST is named", w.Host.Of(w.Knob)), "linerate set %s=VALUE HOST", w.Knob)
		case w.Host == model.Near && far && !both:
			return fault.WithHint(fault.Usagef("%s: without --both the change is about HOST alone", w.Host.Of(w.Knob)), "add --both")
		}
	}
	return nil
}

// Hosts are the open hosts of a change.
type Hosts struct {
	Near, Far *app.Host // Far is nil if the change is to this machine alone
	Both      bool      // with Far: Near is changed too
	Named     string    // Far as the user named it, without secrets; "" for a host that ends with this process
	Link      string    // interface that the user named, if this machine alone is changed
	State     string    // directory of this machine's journal; "" is the system's
}

// Outcome is how a change ended.
type Outcome string

// The outcomes.
const (
	Confirmed Outcome = "confirmed"  // kept until a restart or an undo
	Undone    Outcome = "undone"     // nothing of it is left
	StillOpen Outcome = "not undone" // a host may still hold some of it
	Nothing   Outcome = "nothing to do"
)

// Result is how a change ended, with the evidence.
type Result struct {
	Outcome   Outcome
	Reason    string
	Hosts     []HostResult // the far one first
	Paths     []Way        // path MTUs, after a change of an MTU
	Transfers []Transfer   // test transfers, after a change of an MTU
	Around    bool         // the settings of a work-around are among the changes
}

// HostResult is the outcome on one host.
type HostResult struct {
	Side          model.Host
	Name          string
	System        string // a GOOS
	Changes       []model.Change
	Before, After []probe.Result // how its canaries answered
}

// change is one change that is being carried out.
type change struct {
	app.Env
	Request
	hosts   Hosts
	ends    []*end // the far one first: the near one is always reachable later
	outcome Outcome
	reason  string

	sequence  []*end // the ends in the order in which they were changed
	paths     []Way
	transfers []Transfer
	untested  string // why no transfer can be tried; "" if one can
	lost      []lostCanary
	around    bool // the settings of a work-around are among those wanted
}

// end is one host of a change.
type end struct {
	*app.Host
	wanted        []model.Assignment // on this host
	transaction   string
	applied       bool // and not undone, as far as is known
	changes       []model.Change
	before, after []probe.Result
}

// Do carries out a change on open hosts. The caller closes their sessions, which Do may have
// replaced. While the change is in force, Do asks the user app.KeepChange. It returns an
// error if the change could not be kept. Declining, or having no terminal to ask on, is not
// an error. If the request is refused, the result has no outcome.
func Do(ctx context.Context, env app.Env, h Hosts, r Request) (Result, error) {
	c := &change{Env: env, Request: r, hosts: h}
	for _, host := range h.changed() {
		e := &end{Host: host}
		for _, w := range r.Wanted {
			if w.Host == "" || w.Host == host.Side {
				w.Host = host.Side
				e.wanted = append(e.wanted, w)
			}
		}
		c.ends = append(c.ends, e)
	}
	c.tellPairNote()
	if err := c.check(); err != nil {
		return Result{}, err
	}
	if c.holds() {
		if err := c.heldByOther(ctx); err != nil {
			return Result{}, err
		}
		c.outcome, c.reason = Nothing, "all of it holds already"
		return c.result(), nil
	}
	if err := c.noteOthers(ctx); err != nil {
		return Result{}, err
	}
	err := c.carryOut(ctx)
	if err != nil && c.canGoAround() {
		err = c.goAround(ctx, err)
	}
	return c.result(), err
}

// changed returns the hosts to change, the far one first.
func (h Hosts) changed() []*app.Host {
	switch {
	case h.Far == nil:
		return []*app.Host{h.Near}
	case h.Both:
		return []*app.Host{h.Far, h.Near}
	}
	return []*app.Host{h.Far}
}

func (c *change) result() Result {
	r := Result{Outcome: c.outcome, Reason: c.reason, Paths: c.paths, Transfers: c.transfers, Around: c.around}
	for _, e := range c.ends {
		r.Hosts = append(r.Hosts, HostResult{Side: e.Side, Name: e.Name, System: e.Facts.OS, Changes: e.changes, Before: e.before, After: e.after})
	}
	return r
}

// changing returns the ends whose settings change.
func (c *change) changing() []*end {
	return slices.DeleteFunc(slices.Clone(c.ends), func(e *end) bool { return len(e.wanted) == 0 })
}

// end returns an end by its side, or nil if the change does not include it.
func (c *change) end(side model.Host) *end {
	for _, e := range c.ends {
		if e.Side == side {
			return e
		}
	}
	return nil
}

// host returns a host by its side, even one that is not changed, or nil if there is none.
func (c *change) host(side model.Host) *app.Host {
	if side == model.Far {
		return c.hosts.Far
	}
	return c.hosts.Near
}

// values returns the known values of a host, canonical.
func values(h *app.Host) knob.Values {
	v := make(knob.Values)
	for id, f := range h.Facts.Knobs {
		if text, ok := f.Get(); ok {
			v[id] = text
		}
	}
	return v
}

// holds reports whether all hosts have the wanted values already.
func (c *change) holds() bool {
	for _, e := range c.ends {
		for _, w := range e.wanted {
			if e.Value(w.Knob) != w.Value {
				return false
			}
		}
	}
	return true
}

// heldByOther returns the error for a change that is in force only because another linerate
// holds it: the value is rolled back when that process ends.
func (c *change) heldByOther(ctx context.Context) error {
	return c.eachClaim(ctx, func(e *end, one model.Claim) error {
		if one.Manager != model.ManagerLinerate {
			return nil
		}
		return hinted(fmt.Errorf("%s has that value of %s from %s, which puts %s back %s: %w", e.Name, one.Knob, one.Manager.Title(), one.Sets, one.When, session.ErrBusy))
	})
}

// risky reports whether the change can cut the link.
func (c *change) risky() bool {
	return slices.ContainsFunc(c.ends, func(e *end) bool {
		return slices.ContainsFunc(e.wanted, func(w model.Assignment) bool {
			k, _ := c.Catalogue.ByID(w.Knob)
			return k.Risky()
		})
	})
}

// hinted adds a hint to an error of a change.
func hinted(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fault.WithHint(err, "run linerate as root; over ssh with --sudo")
	case errors.Is(err, session.ErrBusy):
		return fault.WithHint(err, "another linerate changes that host: wait until it has ended")
	}
	return err
}
