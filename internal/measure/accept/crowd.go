package accept

import (
	"math/rand/v2"
	"net/netip"
	"sync"

	"linerate/internal/measure/budget"
)

// Crowd limits the clients that have connected but not yet sent a request. A new client always
// gets in. If all places are taken, the Crowd drops a client of the source with the most
// places, so that one source crowds out only itself: it picks two of its clients at random and
// drops the older one. A client that sends its request at once leaves before its turn comes,
// unless as many others as there are places come meanwhile. (A limit that turns newcomers away
// can be kept full by anyone, with silent connections; OpenSSH's MaxStartups drops at random
// for the same reason.)
//
// A Crowd is safe for concurrent use.
type Crowd struct {
	most int

	mu      sync.Mutex
	count   int
	order   uint64
	sources map[netip.Prefix][]*Place
}

// NewCrowd returns a Crowd of most places, at least 1.
func NewCrowd(most int) *Crowd {
	return &Crowd{most: max(most, 1), sources: map[netip.Prefix][]*Place{}}
}

// Place is one client's place in a Crowd.
type Place struct {
	of     *Crowd
	source netip.Prefix
	order  uint64
	index  int // in its source's list; -1 once it has left
	drop   func()
}

// Enter takes a place for a client at from. It calls drop at most once, from any goroutine,
// when another client gets the place: drop must end the client without blocking.
func (c *Crowd) Enter(from netip.Addr, drop func()) *Place {
	c.mu.Lock()
	var out *Place
	if c.count >= c.most {
		out = c.victim()
		c.remove(out)
	}
	c.order++
	p := &Place{of: c, source: budget.Source(from), order: c.order, drop: drop}
	p.index = len(c.sources[p.source])
	c.sources[p.source] = append(c.sources[p.source], p)
	c.count++
	c.mu.Unlock()
	if out != nil {
		out.drop()
	}
	return p
}

// Leave gives the place back. It returns false if the client was dropped or has left before.
func (p *Place) Leave() bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.index < 0 {
		return false
	}
	p.of.remove(p)
	return true
}

// Count returns the number of places taken.
func (c *Crowd) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// victim returns the place to drop.
func (c *Crowd) victim() *Place {
	var all []*Place // of the largest sources
	most := 0
	for _, list := range c.sources {
		if len(list) > most {
			most, all = len(list), all[:0]
		}
		if len(list) == most {
			all = append(all, list...)
		}
	}
	return older(all[rand.IntN(len(all))], all[rand.IntN(len(all))])
}

func older(a, b *Place) *Place {
	if a.order < b.order {
		return a
	}
	return b
}

// remove takes p out of its source's list.
func (c *Crowd) remove(p *Place) {
	list := c.sources[p.source]
	last := len(list) - 1
	list[p.index] = list[last]
	list[p.index].index = p.index
	list[last] = nil
	p.index = -1
	c.count--
	if last == 0 {
		delete(c.sources, p.source)
		return
	}
	c.sources[p.source] = list[:last]
}
