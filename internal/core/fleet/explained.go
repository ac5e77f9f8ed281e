package fleet

import (
	"math"
	"slices"

	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

const (
	bestOf    = 512 // numbers of a host that are remembered, of a few days (p)
	fewBest   = 12  // of which there is no best yet
	bestShare = .05 // of its numbers that are better: most of its partners may carry less

	wellExplained = 48  // rests that tell how well hosts explain their paths
	leastSpread   = .01 // of rests
	mostSpread    = 2   // of them, in margins, with which they do (p)
	hides         = 4   // spreads by which a host may become worse, and a worse one hides it (p)
)

// explained is how well hosts explain what the paths between them carry.
type explained struct {
	rests  []float64 // of the last numbers: what their hosts at their best do not explain
	usual  float64   // the median of rests
	spread float64   // the scatter of rests; 0 while there are too few
}

// well reports whether they explain it well enough to see a change by a few margins.
func (e *explained) well(margin float64) bool { return e.spread > 0 && e.spread < mostSpread*margin }

// fits reports whether a path that carries so much is one of those that its hosts explain by their best.
func (e *explained) fits(carried, best, margin float64) bool {
	return math.Abs(carried-best-e.usual) < margin+e.spread
}

// expect sets what is expected of a number whose path has too few of its own: as much as the one of
// its hosts that carries less, at their best. A path that carries more shows that they are better
// than known, and no change.
func (p *Paths) expect(c *compared) {
	c.D = c.Number - c.Expected
	if c.Metric == model.IdleP50 {
		return // it belongs to the path
	}
	roles := c.roles()
	a, b := p.behaviour(roles[0]), p.behaviour(roles[1])
	if a.known && b.known {
		e, best := p.explained[c.Metric], max(a.best, b.best)
		e.rests = append(e.rests, c.Number-best)
		e.rests = e.rests[max(0, len(e.rests)-bestOf):]
		if c.Of == 0 && e.well(p.Margin) {
			c.Expected, c.Of, c.byHosts = best+e.usual, 1, true
			if c.D = c.Number - c.Expected; len(a.moves)+len(b.moves) == 0 {
				c.D = max(c.D, -p.Margin/2)
			}
		}
	}
	c.Only = p.slower(c)
	for _, one := range []*behaviour{a, b} {
		one.numbers = append(one.numbers, float32(c.Number))
		one.numbers = one.numbers[max(0, len(one.numbers)-bestOf):]
	}
}

// slower returns the host that limits a path that carries what is expected: the other one may have
// changed, and it would not show. It returns 0 if neither limits it alone.
func (p *Paths) slower(c *compared) int64 {
	e := p.explained[c.Metric]
	if !e.well(p.Margin) || c.D > hides*e.spread {
		return 0
	}
	roles := c.roles()
	a, b := p.behaviour(roles[0]), p.behaviour(roles[1])
	switch {
	case !a.known || !b.known || c.Of > 0 && !e.fits(c.Expected, max(a.best, b.best), p.Margin):
	case a.best > b.best+hides*e.spread+p.Margin:
		return roles[0].host
	case b.best > a.best+hides*e.spread+p.Margin:
		return roles[1].host
	}
	return 0
}

// limits reports whether a host is what limits a path in a role, as far as its hosts tell.
func (p *Paths) limits(r role, c compared) bool {
	e, here := p.explained[r.Metric], p.behaviour(r).best
	if e == nil || !e.well(p.Margin) {
		return false
	}
	for _, o := range c.roles() {
		if p.behaviour(o).best > here+p.Margin/2 {
			return false
		}
	}
	return true
}

// learn takes the numbers of a batch into what hosts do at their best.
func (p *Paths) learn() {
	for _, e := range p.explained {
		if len(e.rests) >= wellExplained {
			e.usual, e.spread = stats.Median(e.rests), max(stats.Scatter(e.rests), leastSpread)
		}
	}
	for _, b := range p.hosts {
		if len(b.numbers) >= fewBest {
			sorted := slices.Sorted(slices.Values(b.numbers))
			b.best, b.known = float64(sorted[int(bestShare*float64(len(sorted)))]), true
		}
	}
}

// movePath has a path with another host move as a host does from what it did at its best: not at all
// while the other one limits it.
func (p *Paths) movePath(path *series.Series, r role, other int64, best float64, m hostMove) {
	e, far, by := p.explained[r.Metric], role{other, r.Stream}, m.by
	far.Direction = Turned(r.Direction)
	if b := p.hosts[far]; e != nil && e.well(p.Margin) && b != nil && b.known && p.hosts[r].known {
		was := max(best, b.best)
		if carried, n := path.Reference(m.at); n == 0 || e.fits(carried, was, p.Margin) {
			by = max(best+by, b.best) - was
		}
	}
	path.Move(m.at, r.host, by)
}
