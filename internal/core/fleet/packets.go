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

// settled is a metric of the packets of a host.
type settled struct {
	host int64
	model.Metric
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
			old, known := was.value(m)
			v, measured := found.value(m)
			p.unsure = slices.DeleteFunc(p.unsure, func(d *Doubt) bool { return measured && d.Way == way && d.Stream == s })
			switch {
			case !measured:
				continue
			case known && v == old:
				p.asBefore(way, s, v)
			case known:
				c := series.Change{Worse: v < old, Was: -old, Now: -v, By: stats.Interval{Low: math.Abs(v - old), High: math.Abs(v - old), Confidence: 1}, Before: before, Since: look, Found: look}
				t := &series.Told{Stream: s, Change: c}
				o = cmp.Or(o, p.oddOn(way, t))
				if !p.explainedBy(way, m, v) {
					p.unsure = append(p.unsure, &Doubt{Doubt: series.Doubt{Stream: s, Suspicion: series.Suspicion{Worse: c.Worse, Reference: c.Was}}, Way: way, look: look, told: t})
					continue
				}
			}
			now[i] = now[i].with(m, v)
		}
	}
	return now, o
}

// explainedBy reports whether one of the hosts of a path is known to have changed to this value.
func (p *Paths) explainedBy(way Way, m model.Metric, v float64) bool {
	for _, host := range []int64{way.Low, way.High} {
		if w, known := p.settled[settled{host, m}]; known && w == v {
			return true
		}
	}
	return false
}

// asBefore takes a look at which a path carries what it did: its hosts are not those that carry less.
func (p *Paths) asBefore(way Way, s series.Stream, v float64) {
	for _, r := range way.compare(series.Compared{Stream: s}).roles() {
		if o := p.odd[r]; o != nil && o.worse && v > o.now {
			delete(p.odd, r)
		}
	}
}

// oddOn takes a path that carries something else than before, and returns the change of a host if another
// partner of it has seen the same.
func (p *Paths) oddOn(way Way, t *series.Told) *Outcome {
	v := t.Value(t.Now)
	if p.explainedBy(way, t.Metric, v) {
		return nil
	}
	roles := way.compare(series.Compared{Stream: t.Stream}).roles()
	for i, r := range roles {
		o := p.odd[r]
		if o == nil || o.now != v {
			o = &oddity{now: v, worse: t.Worse, since: t.Since, before: t.Before}
			p.odd[r] = o
		}
		other := roles[1-i].host
		o.with = slices.DeleteFunc(o.with, func(w With) bool { return w.Host == other })
		o.with = append(o.with, With{other, t.Value(t.Was), v})
	}
	for _, r := range roles {
		if len(p.odd[r].with) >= partners {
			return p.packetsOf(r, *t)
		}
	}
	return nil
}

// packetsOf returns the change of a host that several partners have seen.
func (p *Paths) packetsOf(r role, t series.Told) *Outcome {
	o := p.odd[r]
	t.Stream, t.Since, t.Before = r.Stream, o.since, o.before
	t.Direction = Turned(r.Direction)
	p.settled[settled{r.host, r.Metric}] = o.now
	maps := map[int64]bool{}
	for other := range p.hosts {
		w, known := p.settled[settled{other.host, r.Metric}]
		maps[other.host] = known && w == o.now
	}
	p.unsure = slices.DeleteFunc(p.unsure, func(d *Doubt) bool { return p.explainedBy(d.Way, d.Metric, d.told.Value(d.told.Now)) })
	for _, either := range []model.Direction{model.To, model.From} {
		delete(p.odd, role{r.host, series.Stream{Metric: r.Metric, Direction: either}})
	}
	return &Outcome{Told: &t, Host: r.host, With: o.with, Moved: maps}
}

// raise has runs confirm what no other partner has seen in time.
func (p *Paths) raise(now int64) {
	p.unsure = slices.DeleteFunc(p.unsure, func(d *Doubt) bool {
		if now-d.look.At.Unix() < unsureFor {
			return false
		}
		d.raised = p.batch
		return p.doubt(d)
	})
}

// confirmPackets takes the runs about the packets of a path.
func (p *Paths) confirmPackets(d *Doubt, l *Lease) *Outcome {
	_, now := p.lastOf(d.Way)
	i, v := 0, d.told.Value(d.told.Now)
	if d.Direction == model.From {
		i = 1
	}
	runs := l.Seen()
	for _, r := range runs {
		if found, measured := carriedOf([]model.Run{r}, d.Direction, 0).value(d.Metric); !measured || found != v {
			return nil
		}
	}
	if len(runs) == 0 || p.explainedBy(d.Way, d.Metric, v) {
		return nil
	}
	now[i] = now[i].with(d.Metric, v)
	p.setCarried(d.Way, now)
	d.told.Found.At = p.look(seen{at: l.From}).At
	return &Outcome{Told: d.told, Way: d.Way}
}
