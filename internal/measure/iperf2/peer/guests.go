package peer

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
)

// guests are the sources that have connections, each with one session of the
// budget: the connections of a test with -P are no more than one test. They are
// safe for concurrent use, and as many as there are places at most.
type guests struct {
	mu sync.Mutex
	by map[netip.Prefix]*guest
}

// guest is one source. A nil guest has no limits.
type guest struct {
	share  *budget.Share
	nobody bool // anybody may say to be it

	mu      sync.Mutex
	charged time.Time // up to when its time is counted

	conns int // under guests.mu
}

// enter returns the guest at from, which leave must be called for. The zero
// address is that of all who are not known to be where they say: they are sent
// nothing but reports, and neither their time nor those are held against anybody.
func (g *guests) enter(b *budget.Budget, from netip.Addr) (one *guest, leave func(), err error) {
	source := budget.Source(from)
	g.mu.Lock()
	defer g.mu.Unlock()
	one = g.by[source]
	if one == nil {
		share, err := b.Open(from, "")
		if err != nil {
			return nil, nil, err
		}
		one = &guest{share: share, charged: time.Now(), nobody: !from.IsValid()}
		if g.by == nil {
			g.by = map[netip.Prefix]*guest{}
		}
		g.by[source] = one
	} else if err := one.charge(0); err != nil {
		return nil, nil, err
	}
	one.conns++
	return one, sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if one.conns--; one.conns == 0 {
			_ = one.charge(0) // the last connection is over anyway
			one.share.Close()
			delete(g.by, source)
		}
	}), nil
}

// charge counts what was sent, and the time since it was counted last, whichever
// connections it was for. The error says which limit is reached.
func (g *guest) charge(sent units.Bytes) error {
	if g == nil || g.nobody {
		return nil
	}
	g.mu.Lock()
	now := time.Now()
	took := now.Sub(g.charged)
	g.charged = now
	g.mu.Unlock()
	err := errors.Join(g.share.Spend(sent), g.share.Use(took))
	if ends := g.share.Ends(); !ends.IsZero() && now.After(ends) {
		err = errors.Join(err, budget.ErrOver)
	}
	return err
}
