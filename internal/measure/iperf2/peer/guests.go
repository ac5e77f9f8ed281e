package peer

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
)

// guests are the sources that have connections, each with one session of the budget: the
// connections of a test with -P count as one test. guests is safe for concurrent use, and has
// at most as many entries as there are places.
type guests struct {
	mu sync.Mutex
	by map[netip.Prefix]*guest
}

// guest is one source. A nil guest has no limits.
type guest struct {
	share  *budget.Share
	forged bool // the address may be forged

	mu      sync.Mutex
	charged time.Time // its time is counted up to here

	conns int // under guests.mu
}

// enter returns the guest at from; the caller must call leave. The zero address stands for all
// addresses that may be forged: they are sent nothing but reports, and neither reports nor time
// count against any source.
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
		one = &guest{share: share, charged: time.Now(), forged: !from.IsValid()}
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
			_ = one.charge(0) // the last connection has ended anyway
			one.share.Close()
			delete(g.by, source)
		}
	}), nil
}

// charge counts the bytes sent and the time since the last call, over all connections of the
// guest. The error names the limit that is reached.
func (g *guest) charge(sent units.Bytes) error {
	if g == nil || g.forged {
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
