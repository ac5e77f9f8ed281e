package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/here"
	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
)

// How a change of settings ends.
const (
	outcomeConfirmed = "confirmed" // it stays until a restart or linerate undo
	outcomeUndone    = "undone"    // nothing of it is left
	outcomeOpen      = "not undone"
	outcomeNone      = "nothing to do"
)

// setting is one change of settings by hand, on one host or two.
type setting struct {
	app     *console
	flags   setFlags
	ends    []*setEnd // the far one first: what is near is sure to be reachable last
	pair    *ends     // the sessions with both ends; nil where the change is about this machine alone
	shut    func()
	outcome string
	reason  string

	sequence  []*setEnd // the ends in the order in which they were changed
	paths     []wayDoc
	transfers []transferDoc
	untested  string // why no transfer can be tried; "" where it can
	lost      []lostCanary
	around    bool // the settings of --work-around are among those wanted
}

// setEnd is one host of a change.
type setEnd struct {
	host          model.Host
	name          string
	client        *session.Client
	facts         model.HostFacts
	peer          string // address of the other end, "" for none
	dial          func(context.Context) (wire.Peer, error)
	wanted        []model.Assignment // of this host, canonical
	transaction   string
	applied       bool // and not undone, as far as is known
	changes       []model.Change
	before, after []probe.Result
}

// openSetting opens the hosts of a change and reads them.
func (a *console) openSetting(ctx context.Context, f setFlags, host string, wanted []model.Assignment) (*setting, error) {
	s := &setting{app: a, flags: f}
	if host == "" {
		err := s.openHere(ctx)
		s.hand(wanted)
		return s, err
	}
	near, far, err := parsePair("", host)
	if err != nil {
		return nil, err
	}
	if far.kind == targetForeign {
		return nil, app.WithKind(app.Unsupported, fmt.Errorf("%s has no settings that linerate could change", far))
	}
	e, err := a.open(ctx, near, far)
	if err != nil {
		return nil, err
	}
	s.shut, s.pair = e.close, e
	s.add(model.Far, e.far, e.hosts[1], e.hosts[0].Address, func(ctx context.Context) (wire.Peer, error) { return e.dial(ctx, model.Far) })
	if f.both {
		dial := func(ctx context.Context) (wire.Peer, error) { return e.dial(ctx, model.Near) }
		if e.lab == nil && f.state != "" {
			e.close()
			return nil, usagef("--state is for changes of this machine alone: with --both set LINERATE_STATE")
		}
		s.add(model.Near, e.near, e.hosts[0], cmp.Or(e.far.DataHost(), e.hosts[1].Address), dial)
	}
	for _, end := range s.ends {
		switch {
		case e.lab != nil:
			end.name = "lab host " + string(end.host)
		case f.both && s.ends[0].facts.Name == s.ends[1].facts.Name: // of a container, say
			end.name += " (" + end.client.Name() + ")"
		}
	}
	s.hand(wanted)
	return s, nil
}

// hand gives every end what is wanted of it.
func (s *setting) hand(wanted []model.Assignment) {
	for _, e := range s.ends {
		for _, w := range wanted {
			if w.Host == "" || w.Host == e.host {
				w.Host = e.host
				e.wanted = append(e.wanted, w)
			}
		}
	}
}

// changing are the ends of which something is wanted.
func (s *setting) changing() []*setEnd {
	return slices.DeleteFunc(slices.Clone(s.ends), func(e *setEnd) bool { return len(e.wanted) == 0 })
}

// end returns an end by its host, nil where the change is not about it.
func (s *setting) end(h model.Host) *setEnd {
	for _, e := range s.ends {
		if e.host == h {
			return e
		}
	}
	return nil
}

// openHere opens this machine alone.
func (s *setting) openHere(ctx context.Context) error {
	h, err := here.Open(ctx, s.app.world(), s.app.hereOptions(s.flags.state, s.flags.link))
	if err != nil {
		return err
	}
	s.shut = func() { s.app.hangUp(s.ends[0].client) }
	s.add(model.Near, h.Client, h.Facts, "", h.Dial)
	return nil
}

// add appends a host.
func (s *setting) add(h model.Host, c *session.Client, f model.HostFacts, peer string, dial func(context.Context) (wire.Peer, error)) {
	name := f.Name
	if h == model.Near {
		name = cmp.Or(name, app.ThisMachine)
	}
	s.ends = append(s.ends, &setEnd{host: h, name: cmp.Or(name, c.Name()), client: c, facts: f, peer: peer, dial: dial})
}

func (a *console) openSession(ctx context.Context, h model.Host, dial func(context.Context) (wire.Peer, error)) (*session.Client, error) {
	return a.world().OpenSession(ctx, h, dial)
}

func (a *console) hangUp(c *session.Client) { a.world().HangUp(c) }

func (s *setting) close() {
	if s.shut != nil {
		s.shut()
		s.shut = nil
	}
}

// values are the canonical values of a host, as far as they are known.
func (e *setEnd) values() knob.Values {
	v := make(knob.Values)
	for id, f := range e.facts.Knobs {
		if text, ok := f.Get(); ok {
			v[id] = text
		}
	}
	return v
}

// unreadable are the wanted knobs that have no value on a host.
func (e *setEnd) unreadable(wanted []model.Assignment) []error {
	var errs []error
	for _, w := range wanted {
		if f := e.facts.Knobs[w.Knob]; !f.IsKnown() {
			errs = append(errs, fmt.Errorf("%w: %s", errors.ErrUnsupported, cmp.Or(f.Reason(), string(w.Knob)+" is not known there")))
		}
	}
	return errs
}

// holds reports whether nothing would change.
func (s *setting) holds() bool {
	for _, e := range s.ends {
		now := e.values()
		for _, w := range e.wanted {
			if now[w.Knob] != w.Value {
				return false
			}
		}
	}
	return true
}

// risky reports whether the change can cut the link.
func (s *setting) risky() bool {
	return slices.ContainsFunc(s.ends, func(e *setEnd) bool {
		return slices.ContainsFunc(e.wanted, func(w model.Assignment) bool {
			k, _ := knob.ByID(w.Knob)
			return k.Risky()
		})
	})
}

// canaries are whom a host asks: the gateway, the other end, and whom the user
// names.
func (e *setEnd) canaries(more []string) []string {
	var all []string
	add := func(target string) {
		if a, err := netip.ParseAddr(target); err == nil && !a.IsLoopback() && !a.IsUnspecified() && !slices.Contains(all, target) {
			all = append(all, target)
		}
	}
	if r := e.facts.Route; r != nil {
		add(r.Gateway.Or(""))
	}
	add(e.peer)
	for _, target := range more {
		if !slices.Contains(all, target) {
			all = append(all, target)
		}
	}
	return all
}

const (
	// answerTime is how long a canary may take: several tries.
	answerTime = 3 * time.Second
	// settleTime is how long a link may be down after a change: negotiation takes 1
	// to 10 s (knobs.md section 0, class bounce).
	settleTime = 12 * time.Second
)

// ask asks the canaries of all hosts, where the change is risky or the user
// named some.
func (s *setting) ask(ctx context.Context, settle time.Duration, keep func(*setEnd, []probe.Result)) error {
	if !s.risky() && len(s.flags.canaries) == 0 {
		return nil
	}
	for _, e := range s.ends {
		targets := e.canaries(s.flags.canaries)
		if len(targets) == 0 {
			continue
		}
		answers, err := e.client.Probe(ctx, targets, answerTime, settle)
		if err != nil {
			return err
		}
		keep(e, answers)
	}
	return nil
}

// canaryDocs are the questions of a host with both answers.
func (e *setEnd) canaryDocs() []canaryDoc {
	var all []canaryDoc
	for i, b := range e.before {
		d := canaryDoc{Host: e.host, Target: b.Target, Bytes: b.Bytes, Before: b.OK, Detail: b.Detail}
		if i < len(e.after) {
			d.Bytes, d.After, d.Detail = e.after[i].Bytes, e.after[i].OK, e.after[i].Detail
		}
		all = append(all, d)
	}
	return all
}
