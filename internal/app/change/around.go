package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"linerate/internal/app"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/fault"
)

// tcpHeaders4 and tcpHeaders6 are the header bytes of a packet without options: IPv4 (RFC
// 791) or IPv6 (RFC 8200), and TCP (RFC 9293).
const tcpHeaders4, tcpHeaders6 = 40, 60

// aroundHint says what can be done on a host about destinations beyond a router that its
// larger MTU has cut off.
func aroundHint(lost []lostCanary) string {
	p, n := lost[0].path, lost[0].size()
	headers := tcpHeaders4
	if a, err := netip.ParseAddr(p.Address); err == nil && a.Is6() {
		headers = tcpHeaders6
	}
	return fmt.Sprintf("--work-around takes small segments to there as part of the change; by hand that is route.mtu=%d or route.advmss=%d for the route to %s, and tcp.mtu_probing=1",
		n, n-headers, p.Host)
}

// size returns the packet size that the path to a lost canary takes: as probed, or the MTU
// that the host had before.
func (l lostCanary) size() int {
	if l.path.Passes >= mtu.Least && l.path.Passes < l.end.mtuThen() {
		return l.path.Passes
	}
	return l.end.mtuNow()
}

// canGoAround reports whether the change was undone only because destinations beyond a router
// were lost, and the user wants a work-around.
func (c *change) canGoAround() bool {
	return c.Around && !c.around && len(c.lost) > 0 && c.outcome == Undone
}

// goAround makes the change again, with settings that have the hosts send small segments to
// the lost destinations, and ask for such. An agent sets routes towards the peer that it was
// given, so each host gets a new session whose peer is the lost destination.
func (c *change) goAround(ctx context.Context, cause error) error {
	failed := func(err error) error {
		return &fault.Error{Kind: fault.KindOf(cause), Err: fmt.Errorf("%w; no work-around: %w", cause, err), Hint: fault.HintOf(cause)}
	}
	c.around = true
	done := map[*end]bool{}
	for _, l := range c.lost {
		if done[l.end] {
			continue // one route for each host; MTU probing helps the others
		}
		done[l.end] = true
		more, err := c.toGoAround(ctx, l)
		if err != nil {
			return failed(err)
		}
		l.end.wanted = append(l.end.wanted, more...)
		if err := errors.Join(c.faults(l.end)...); err != nil {
			return failed(err)
		}
		for _, w := range more {
			c.Observe(app.Around{Host: l.end.Name, To: l.path.Host, Setting: w})
		}
	}
	c.paths, c.transfers = nil, nil
	for _, e := range c.ends {
		e.changes, e.before, e.after = nil, nil, nil
	}
	return c.carryOut(ctx)
}

// toGoAround opens a new session with a host and returns the settings that help there.
func (c *change) toGoAround(ctx context.Context, l lostCanary) ([]model.Assignment, error) {
	e := l.end
	size := l.size()
	if err := c.reopen(ctx, e, cmp.Or(l.path.Address, l.path.Host)); err != nil {
		return nil, err
	}
	var more []model.Assignment
	add := func(id model.KnobID, value string) {
		k, _ := c.Catalogue.ByID(id)
		now := e.Facts.Knobs[id]
		_, here := k.Native[e.Facts.OS]
		if here && k.EffectOn(e.Facts.OS) != knob.EffectBoot && now.IsKnown() && e.wants(id) == "" && now.Or("") != value {
			more = append(more, model.Assignment{Host: e.Side, Knob: id, Value: value})
		}
	}
	gateway := ""
	if r := e.Facts.Route; r != nil {
		gateway = r.Gateway.Or("")
	}
	if gateway != "" { // to a neighbour the link's MTU is the one requested
		add(routeKnob, strconv.Itoa(size))
	}
	if e.Facts.Knobs[probingKnob].Or("") == "0" {
		add(probingKnob, "1")
	}
	if len(more) == 0 {
		return nil, fmt.Errorf("%s has no setting that helps on the way to %s", e.Name, l.path.Host)
	}
	return more, nil
}

// reopen replaces the session with a host by a new one, whose route is the one to another
// address.
func (c *change) reopen(ctx context.Context, e *end, to string) error {
	link := e.Facts.Interface.Or("")
	c.HangUp(e.Client) // its watchdog has the journal
	fresh, err := c.Again(ctx, e.Host)
	if err != nil {
		return err
	}
	e.Client = fresh
	f, err := fresh.Facts(ctx, to)
	if err != nil {
		return err
	}
	if got := f.Interface.Or(""); link != "" && got != link {
		return fmt.Errorf("the way from %s to %s is by %s, not by %s", e.Name, to, cmp.Or(got, "an unknown interface"), link)
	}
	e.Facts = f
	return nil
}
