package member

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"sync"
	"time"

	wirefleet "linerate/internal/control/fleet"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fleet"
	"linerate/internal/core/units"
)

// guard decides what this host measures: one run at a time, within its owner's limits, in
// windows of the hub's time. A ticket is for one session.
type guard struct {
	limits func() fleet.Limits

	mu    sync.Mutex
	own   int64            // the number of this host; 0 before the hub has sent it
	key   *ecdsa.PublicKey // of the hub
	hub   time.Time        // the hub's time at local, with the least doubt so far
	local time.Time        // with its monotonic clock
	doubt time.Duration    // half of the round trip in which hub was read; 0 for none
	taken []fleet.Span     // windows in which this host measured, of the last two hours
	used  map[int64]bool   // leases whose tickets were presented here
	quiet int64            // the hub drained this host until then
	busy  int64            // the present lease, 0 for none
	until int64            // end of its window
}

const (
	// late is how much later than its window a run may begin, in seconds.
	late = 5
	// slack is how far two hosts may disagree on the hub's time, in seconds.
	slack = 2
	// drift is by how much clocks of computers drift apart: up to a part in this, 100 ppm.
	drift = 10_000
)

func newGuard(limits func() fleet.Limits) *guard {
	return &guard{limits: limits, used: map[int64]bool{}}
}

// set takes a reading of the hub's clock, in an answer for which the hub has waited, between sent and
// got by this host's. It replaces a better one as soon as that may have drifted by more.
func (g *guard) set(host int64, hub, sent, got time.Time, waited time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own = host
	if doubt := (got.Sub(sent) - min(max(waited, 0), got.Sub(sent))) / 2; g.doubt == 0 || doubt <= g.doubt+got.Sub(g.local)/drift {
		g.hub, g.local, g.doubt = hub, got.Add(-doubt), max(doubt, 1)
	}
}

// drain has this host measure nothing before that time of the hub's clock.
func (g *guard) drain(until int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.quiet = until
}

// learn takes the hub's key.
func (g *guard) learn(key *ecdsa.PublicKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.key = key
}

// now returns the hub's time in seconds since 1970, whatever the clock of this host says. It is
// right from the first answer of the hub on.
func (g *guard) now() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nowLocked().Unix()
}

// drained returns until when the hub drained this host.
func (g *guard) drained() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.quiet
}

func (g *guard) nowLocked() time.Time { return g.hub.Add(time.Since(g.local)) }

// left returns how long it is to a moment of the hub's time.
func (g *guard) left(at int64) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Unix(at, 0).Sub(g.nowLocked())
}

// begin takes this host for a lease, or says why not.
func (g *guard) begin(lease int64, w fleet.Span) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.beginLocked(lease, w)
}

func (g *guard) beginLocked(lease int64, w fleet.Span) error {
	now := g.nowLocked().Unix()
	if g.busy != 0 && now <= g.until+slack {
		return errors.New(string(fleet.Busy))
	}
	if now < g.quiet {
		return errors.New(string(fleet.Drained))
	}
	var taken []fleet.Span
	for _, t := range g.taken {
		if t.Until > now-2*3600 {
			taken = append(taken, t)
		}
	}
	g.taken = taken
	if why := g.limits().Allow(w, taken); why != fleet.Allowed {
		return errors.New(string(why))
	}
	g.taken = append(g.taken, w)
	g.busy, g.until = lease, w.Until
	return nil
}

// end lets this host measure again after a lease.
func (g *guard) end(lease int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy == lease {
		g.busy = 0
	}
}

const unheard = "this host has not heard of its hub yet"

// mostUsed is how many used leases are remembered; those before are out of their windows.
const mostUsed = 10_000

// Find implements serve.Tickets: a ticket that the hub signed for this host and this moment, that
// was not presented before.
func (g *guard) Find(secret []byte) (tls.Key, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, err := wirefleet.ReadTicket(secret, g.key)
	if errors.Is(err, wirefleet.ErrEarly) {
		return tls.Key{Refusal: unheard}, false
	}
	if err != nil {
		return tls.Key{}, false
	}
	if err := g.admitLocked(t); err != nil {
		return tls.Key{Refusal: err.Error()}, false
	}
	if len(g.used) >= mostUsed {
		clear(g.used)
	}
	g.used[t.Lease] = true
	over := make(chan struct{})
	time.AfterFunc(time.Unix(t.Until+slack, 0).Sub(g.nowLocked()), func() { close(over) })
	return tls.Key{Name: keyName(t.Lease), Over: over, Rate: g.rate(t.Rate)}, true
}

// admitLocked takes this host for the lease of a ticket, or says why not.
func (g *guard) admitLocked(t wirefleet.Ticket) error {
	now := g.nowLocked().Unix()
	switch {
	case g.doubt == 0:
		return errors.New(unheard)
	case t.Far != g.own:
		return errors.New("the ticket is for another host")
	case now < t.From-slack || now > t.Until:
		return errors.New("the window of the ticket is not now")
	case g.used[t.Lease]:
		return errors.New("the ticket was used before")
	}
	return g.beginLocked(t.Lease, t.Span)
}

// Ended implements serve.Tickets.
func (g *guard) Ended(name string) {
	var lease int64
	if _, err := fmt.Sscanf(name, keyFormat, &lease); err == nil {
		g.end(lease)
	}
}

const keyFormat = "fleet:%d"

func keyName(lease int64) string { return fmt.Sprintf(keyFormat, lease) }

// rate returns the most TCP, each way, of a run for which the hub names a rate: no more than the
// owner allows, whatever the hub says. 0 is no limit.
func (g *guard) rate(named units.BitRate) units.BitRate {
	l := g.limits()
	if l.ProbeOnly {
		return probeRate
	}
	if named == 0 || l.Rate > 0 && l.Rate < named {
		return l.Rate
	}
	return named
}

// probeRate bounds TCP on a host that only probes: none of linerate's own runs uses any there.
const probeRate units.BitRate = 1
