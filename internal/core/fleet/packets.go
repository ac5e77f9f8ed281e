package fleet

import (
	"cmp"
	"math"
	"slices"

	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic/packets"
)

// The largest packet that passes, and whether ECN marks arrive, do not scatter: a value that differs from
// that of the last look of the same path is a change if two partners of a host see it, or if
// runs on the same path find it again.

// carried is which packets a direction carries: bytes of the largest in units, and in the upper two
// bits whether ECN marks arrive. 0 is unknown. A hub has a million of them.
type carried uint16

const (
	carriedUnit         = 4 // bytes
	arrive      carried = 1 << 14
	lost        carried = 2 << 14
	marked              = arrive | lost
	// packetRuns confirm a change on a path; all have to find it.
	packetRuns = 3
	// unsureFor is how long a change on a path waits for another partner that sees it, in seconds (p).
	unsureFor = 900
)

// carriedOf returns what the runs of a look found in a direction. What they did not find is as before.
func carriedOf(runs []model.Run, d model.Direction, before carried) carried {
	for _, m := range packetMetrics() {
		s := series.Stream{Metric: m, Direction: d}
		if y := s.Numbers(runs); len(y) > 0 {
			before = before.with(m, s.Value(y[0]))
		}
	}
	return before
}

func packetMetrics() []model.Metric { return []model.Metric{packets.Passes, packets.Marks} }

// with returns c with another value of a metric.
func (c carried) with(m model.Metric, v float64) carried {
	switch {
	case m == packets.Passes:
		return c&marked | carried(v/carriedUnit)
	case v < .5:
		return c&^marked | lost
	}
	return c&^marked | arrive
}

// value returns a metric of c, and false if it is unknown.
func (c carried) value(m model.Metric) (float64, bool) {
	if m == packets.Passes {
		size := c &^ marked
		return carriedUnit * float64(size), size > 0
	}
	return float64(c & arrive / arrive), c&marked != 0
}

// oddity is another value than before that partners of a host in a role have seen.
type oddity struct {
	now           float64
	worse         bool
	with          []With
	since, before series.Look
}

// lastOf returns the last look of a path, and which packets it carried then, as Low sees it.
func (p *Paths) lastOf(way Way) (series.Look, [2]carried) {
	if path := p.often[way]; path != nil {
		return path.Last, p.carried[way]
	}
	if s := p.seldom.Get(way); s != nil {
		return p.look(s.looks[s.n-1]), s.looks[s.n-1].carried
	}
	return series.Look{}, [2]carried{}
}

// setCarried stores which packets a path carries.
func (p *Paths) setCarried(way Way, c [2]carried) {
	if s := p.seldom.Get(way); s != nil {
		s.looks[s.n-1].carried = c
	} else {
		p.carried[way] = c
	}
}

// packets takes which packets the runs of a look found to pass each way, before the look is added. It
// returns what counts from now on, and the change of a host that this shows.
func (p *Paths) packets(way Way, look series.Look, runs []model.Run) (now [2]carried, o *Outcome) {
	before, now := p.lastOf(way)
	for i, d := range []model.Direction{model.To, model.From} {
		was, found := now[i], carriedOf(runs, d, now[i])
		for _, m := range packetMetrics() {
			s := series.Stream{Metric: m, Direction: d}
			v, measured := found.value(m)
			if !measured {
				continue
			}
			p.unsure = slices.DeleteFunc(p.unsure, func(d *Doubt) bool { return d.Way == way && d.Stream == s })
			if old, known := was.value(m); known {
				c := series.Change{Worse: v < old, Was: -old, Now: -v, By: exactly(v - old), Before: before, Since: look, Found: look}
				t := &series.StreamChange{Stream: s, Change: c}
				o = cmp.Or(o, p.packetsOn(way, t))
				if v != old && !p.explainedBy(way, s, v) {
					p.unsure = append(p.unsure, &Doubt{Doubt: series.Doubt{Stream: s, Suspicion: series.Suspicion{Worse: c.Worse, Reference: c.Was}}, Way: way, look: look, change: t})
					continue
				}
			}
			now[i] = now[i].with(m, v)
		}
	}
	return now, o
}

// exactly is the size of a change of something that does not scatter.
func exactly(by float64) stats.Interval {
	return stats.Interval{Low: math.Abs(by), High: math.Abs(by), Confidence: 1}
}

// explainedBy reports whether one of the hosts of a path is known to have changed to this value.
func (p *Paths) explainedBy(way Way, s series.Stream, v float64) bool {
	return slices.ContainsFunc(way.compare(series.Compared{Stream: s}).roles(), func(r role) bool {
		w, known := p.settled[r]
		return known && w == v
	})
}

// packetsOn takes what a path carries, and returns the change of a host if another partner of it has seen
// the same. Of a host that is known to carry less, any path that carries more shows its return; else a
// path that carries what it did shows that its hosts can.
func (p *Paths) packetsOn(way Way, t *series.StreamChange) *Outcome {
	v := t.Value(t.Now)
	if t.Was != t.Now && p.explainedBy(way, t.Stream, v) {
		return nil
	}
	roles := way.compare(series.Compared{Stream: t.Stream}).roles()
	for i, r := range roles {
		was, o := t.Value(t.Was), p.odd[r]
		if less, known := p.settled[r]; known && less < v {
			was = less
		}
		if v == was {
			if o != nil && (v > o.now || v == o.now && !o.worse) {
				delete(p.odd, r)
			}
			continue
		}
		if o == nil || o.now != v {
			o = &oddity{now: v, worse: v < was, since: t.Since, before: t.Before}
			p.odd[r] = o
		}
		other := roles[1-i].host
		o.with = slices.DeleteFunc(o.with, func(w With) bool { return w.Host == other })
		o.with = append(o.with, With{other, was, v})
	}
	for _, r := range roles {
		if o := p.odd[r]; o != nil && len(o.with) >= partners {
			return p.packetsOf(r, o, t.Found)
		}
	}
	return nil
}

// packetsOf returns the change of a host that several partners have seen, which one of them has seen the
// other way too.
func (p *Paths) packetsOf(r role, o *oddity, found series.Look) *Outcome {
	last := o.with[len(o.with)-1]
	t := series.StreamChange{Stream: r.Stream, Change: series.Change{Worse: o.worse, Was: -last.Was, Now: -o.now, By: exactly(last.Was - o.now), Before: o.before, Since: o.since, Found: found}}
	t.Direction = Turned(r.Direction)
	back := role{r.host, t.Stream}
	for _, either := range []role{r, back} {
		if of := p.odd[either]; of != nil && of.now == o.now {
			p.settled[either] = o.now
			delete(p.odd, either)
		}
	}
	moved := map[int64]bool{}
	for other := range p.hosts {
		w, known := p.settled[role{other.host, r.Stream}]
		moved[other.host] = known && w == o.now
	}
	p.unsure = slices.DeleteFunc(p.unsure, func(d *Doubt) bool { return p.explainedBy(d.Way, d.Stream, d.change.Value(d.change.Now)) })
	return &Outcome{StreamChange: &t, Host: r.host, With: o.with, Moved: moved}
}

// raise has runs confirm what no other partner has seen in time.
func (p *Paths) raise(now int64) {
	p.unsure = slices.DeleteFunc(p.unsure, func(d *Doubt) bool {
		if now-d.look.At.Unix() < unsureFor {
			return false
		}
		return p.doubt(d)
	})
}

// confirmPackets takes the runs about the packets of a path.
func (p *Paths) confirmPackets(d *Doubt, l *Lease) *Outcome {
	_, now := p.lastOf(d.Way)
	i, v := 0, d.change.Value(d.change.Now)
	if d.Direction == model.From {
		i = 1
	}
	runs := l.Seen()
	for _, r := range runs {
		if found, measured := carriedOf([]model.Run{r}, d.Direction, 0).value(d.Metric); !measured || found != v {
			return nil
		}
	}
	if was, _ := now[i].value(d.Metric); len(runs) == 0 || was == v || p.explainedBy(d.Way, d.Stream, v) {
		return nil // or another look has shown it
	}
	now[i] = now[i].with(d.Metric, v)
	p.setCarried(d.Way, now)
	d.change.Found.At = p.look(seen{at: l.From}).At
	return &Outcome{StreamChange: d.change, Way: d.Way}
}
