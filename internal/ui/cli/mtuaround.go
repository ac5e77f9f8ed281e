package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"linerate/internal/app"
	"linerate/internal/control/runner"
	"linerate/internal/control/session"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
)

// tcpHeaders4 and tcpHeaders6 are what of a packet is no segment: IPv4 (RFC 791)
// or IPv6 (RFC 8200), and TCP (RFC 9293), without options.
const tcpHeaders4, tcpHeaders6 = 40, 60

// aroundHint says what can be done at a host for those who are lost beyond a
// router since its MTU is larger.
func aroundHint(lost []lostCanary) string {
	p, n := lost[0].path, lost[0].size()
	headers := tcpHeaders4
	if a, err := netip.ParseAddr(p.Address); err == nil && a.Is6() {
		headers = tcpHeaders6
	}
	return fmt.Sprintf("--work-around takes small segments to there as part of the change; by hand that is route.mtu=%d or route.advmss=%d for the route to %s, and tcp.mtu_probing=1",
		n, n-headers, p.Host)
}

// size is the packet that the way to a lost canary takes: what was found, or
// what the host had before.
func (l lostCanary) size() int {
	if l.path.Passes >= mtu.Least && l.path.Passes < l.end.mtuThen() {
		return l.path.Passes
	}
	return l.end.mtuNow()
}

// canGoAround reports whether the change went back for the sake of those beyond a
// router alone, and the user wants a work-around.
func (s *setting) canGoAround() bool {
	return s.flags.around && !s.around && len(s.lost) > 0 && s.outcome == outcomeUndone
}

// goAround makes the change again, with settings that have the hosts send and ask
// for small segments to those that were lost. Since the settings of a route belong
// to the one by which an agent was told to go, that host gets a new session, which
// looks there first.
func (s *setting) goAround(ctx context.Context, cause error) error {
	failed := func(err error) error {
		return &app.Fault{Kind: kindOf(cause), Err: fmt.Errorf("%w; no work-around: %w", cause, err), Hint: hintOf(cause)}
	}
	s.around = true
	done := map[*setEnd]bool{}
	for _, l := range s.lost {
		if done[l.end] {
			continue // one route for each host; the probing helps the others
		}
		done[l.end] = true
		more, err := s.toGoAround(ctx, l)
		if err != nil {
			return failed(err)
		}
		l.end.wanted = append(l.end.wanted, more...)
		if err := errors.Join(l.end.faults()...); err != nil {
			return failed(err)
		}
		for _, w := range more {
			s.app.talk("%s: work-around for %s: %s=%s", l.end.name, l.path.Host, w.Knob, formatKnob(w.Knob, w.Value))
		}
	}
	s.paths, s.transfers = nil, nil
	for _, e := range s.ends {
		e.changes, e.before, e.after = nil, nil, nil
	}
	return s.carryOut(ctx)
}

// toGoAround opens a host anew and returns what helps there.
func (s *setting) toGoAround(ctx context.Context, l lostCanary) ([]model.Assignment, error) {
	e := l.end
	size := l.size()
	if err := s.reopen(ctx, e, cmp.Or(l.path.Address, l.path.Host)); err != nil {
		return nil, err
	}
	var more []model.Assignment
	add := func(id model.KnobID, value string) {
		k, _ := knob.ByID(id)
		now := e.facts.Knobs[id]
		_, here := k.Native[e.facts.OS]
		if here && k.EffectOn(e.facts.OS) != knob.EffectBoot && now.IsKnown() && e.wants(id) == "" && now.Or("") != value {
			more = append(more, model.Assignment{Host: e.host, Knob: id, Value: value})
		}
	}
	gateway := ""
	if r := e.facts.Route; r != nil {
		gateway = r.Gateway.Or("")
	}
	if gateway != "" { // to a neighbour the link's MTU is what was asked for
		add(routeKnob, strconv.Itoa(size))
	}
	if e.facts.Knobs[probingKnob].Or("") == "0" {
		add(probingKnob, "1")
	}
	if len(more) == 0 {
		return nil, fmt.Errorf("%s has no setting that helps on the way to %s", e.name, l.path.Host)
	}
	return more, nil
}

// reopen replaces the session with a host by a new one, which takes the route to
// another address for its own.
func (s *setting) reopen(ctx context.Context, e *setEnd, to string) error {
	link := e.facts.Interface.Or("")
	s.app.hangUp(e.client) // its watchdog has the journal
	c, err := s.app.openSession(ctx, e.host, e.dial)
	if err != nil {
		return err
	}
	s.replace(e, c)
	f, err := c.Facts(ctx, to)
	if err != nil {
		return err
	}
	if got := f.Interface.Or(""); link != "" && got != link {
		return fmt.Errorf("the way from %s to %s is by %s, not by %s", e.name, to, cmp.Or(got, "an unknown interface"), link)
	}
	e.facts = f
	return nil
}

// replace puts a new session in the place of one that has ended.
func (s *setting) replace(e *setEnd, c *session.Client) {
	e.client = c
	if s.pair == nil {
		return
	}
	if e.host == model.Near {
		s.pair.near = c
	} else {
		s.pair.far = c
	}
	s.pair.runner = runner.New(s.pair.near, s.pair.far, s.app.Now)
}
