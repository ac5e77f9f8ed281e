package fleet

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"linerate/internal/core/fleet/series"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Sums from which a host, and a path, are suspected (p). Each is less than that of one watched path: the
// number of a host comes from several looks, and the next look at a path is hours away.
const hostAlarm, pathAlarm = 2, 2.5

// role is what a host does in a stream: it sends To others, or receives From them.
type role struct {
	host int64
	series.Stream
}

// behaviour is how much worse than expected a host is in a role, from batch to batch.
type behaviour struct {
	series.Detector
	looks []compared // the last ones
	held  []held     // of them, those that count with the next: they were with too few partners
	moves []hostMove // changes that still hold, the last one last
	last  *suspect   // its last suspicion, nil if that was decided
	now   float64    // how far it has moved beside them, smoothed over batches

	numbers []float32 // of the last looks, the newest last
	best    float64   // what it does at its best, of all partners
	known   bool      // whether best is
}

// held is how much worse than expected a look was that does not count yet.
type held struct {
	batch int64
	Way
	effect float64
}

// heldFor is for how many batches a look is held (p).
const heldFor = 3

// smoothing is over how many batches a host's present deviation is smoothed (p).
const smoothing = 3

type hostMove struct {
	at time.Time
	by float64
}

// suspect is a host that seems to have changed.
type suspect struct {
	role
	series.Alarm
	batch   int64
	size    float64 // of the change that the looks of this batch show
	path    Way     // the only one that has seen it, which may have changed itself; the zero value if there are more
	sure    bool
	asks    []compared // looks with partners that are to confirm it
	open    int        // of them, whose answers are to come
	scatter float64    // of the looks of this batch
	margin  float64    // least change of all partners together to report
	answers []answer
	again   bool // they were measured a second time
}

// suspects returns the hosts that are worse or better than expected in a metric, with whether that
// is sure enough to be confirmed (if it is not, it may be in the next batch), and the scatter of
// the paths.
func (p *Paths) suspects(m model.Metric) (all []*suspect, scatter float64) {
	var of []Deviation
	roles := map[role][]compared{}
	for _, c := range p.looks {
		if c.Metric != m {
			continue
		}
		of = append(of, c.Deviation)
		if m == model.IdleP50 { // either end has all of it
			of = append(of, Deviation{From: c.To, To: c.From, D: c.D})
		}
		for _, r := range c.roles() {
			if c.Tells(r.host) {
				roles[r] = append(roles[r], c)
			}
		}
	}
	if len(of) == 0 {
		return nil, 0
	}
	fit := Fit(of)
	scatter = stats.Scatter(lists.Each(of, func(d Deviation) float64 { return d.D })) // of a few looks of each host the fit leaves hardly any
	order := slices.SortedFunc(maps.Keys(roles), func(a, b role) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.Direction, b.Direction))
	})
	for _, r := range order {
		b := p.behaviour(r)
		b.looks = append(b.looks, roles[r]...)
		b.looks = b.looks[max(0, len(b.looks)-remembered):]
		b.held = slices.DeleteFunc(b.held, func(h held) bool { return h.batch < p.batch-heldFor })
		for _, c := range roles[r] {
			b.held = append(b.held, held{p.batch, c.way, c.D - fit.other(r.host, c.Deviation)})
		}
		with := map[Way]bool{}
		for _, h := range b.held {
			with[h.Way] = true
		}
		effect := usual(b.held, func(h held) (Way, float64) { return h.Way, h.effect })
		var path Way
		if len(with) < partners {
			if math.Abs(effect) < mostSpread*p.Margin {
				continue // it may be the path
			}
			path = b.held[0].Way
		}
		b.held = nil
		b.now += (effect - b.now) / smoothing
		a, _ := b.Detect(effect, p.Margin, hostAlarm, int(p.batch))
		if a.Scatter == 0 || math.Abs(effect) < p.Margin/2 || a.Worse != (effect > 0) {
			continue // too little is known, or it is as always
		}
		s := &suspect{role: r, Alarm: a, batch: p.batch, scatter: scatter, size: math.Abs(effect), path: path}
		p.choose(s, b, roles[r])
		s.sure = a.C >= hostAlarm && len(s.asks) >= partners
		all, b.last = append(all, s), s
	}
	return all, scatter
}

// compare returns a number of a path as the sender's.
func (w Way) compare(c series.Compared) compared {
	d := Deviation{From: w.Low, To: w.High}
	if c.Direction == model.From {
		d.From, d.To = d.To, d.From
	}
	return compared{Deviation: d, Compared: c, way: w}
}

// roles returns the roles that c tells of.
func (c compared) roles() []role {
	s := c.Stream
	if s.Direction = model.To; s.Metric == model.IdleP50 {
		return []role{{c.From, s}, {c.To, s}}
	}
	back := s
	back.Direction = model.From
	return []role{{c.From, s}, {c.To, back}}
}

// weight is how urgent it is to confirm it: the size of the change, or half of that if only one partner
// has seen it, since a run may have stalled (p).
func (s *suspect) weight() float64 {
	if s.path != (Way{}) {
		return s.size / 2
	}
	return s.size
}

// shows reports whether a number deviates like the suspect, by half of so much or more.
func (s *suspect) shows(c compared, by float64) bool {
	return c.D >= by/2 && s.Worse || c.D <= -by/2 && !s.Worse
}

// choose chooses the partners that are to confirm it: those that have seen it in this batch, the ones
// of which most is known first, and others with which this host is what limits.
func (p *Paths) choose(s *suspect, b *behaviour, looks []compared) {
	add := func(c compared) {
		if len(s.asks) < mostPartners && c.way != s.path && !slices.ContainsFunc(s.asks, func(o compared) bool { return o.way == c.way }) {
			s.asks = append(s.asks, c)
		}
	}
	last := slices.Clone(b.looks)
	slices.Reverse(last) // the last look of each
	slices.SortStableFunc(last, func(a, b compared) int { return cmp.Compare(b.Of, a.Of) })
	for _, c := range last {
		if s.shows(c, p.Margin) && slices.ContainsFunc(looks, func(o compared) bool { return o.look == c.look }) {
			add(c)
		}
	}
	for _, c := range last {
		if c.look.At.Unix() > p.batch*batchTime-day && p.limits(s.role, c) {
			add(c)
		}
	}
}

// behaviour returns the behaviour of a host in a role.
func (p *Paths) behaviour(r role) *behaviour {
	b := p.hosts[r]
	if b == nil {
		b = &behaviour{}
		p.hosts[r] = b
	}
	return b
}

// byHost reports whether a host that is suspected, or was in the last batches, would explain at least half of
// what a doubt about a path has seen.
func (p *Paths) byHost(d *Doubt) bool {
	return slices.ContainsFunc(d.Way.compare(series.Compared{Stream: d.Stream}).roles(), func(r role) bool {
		b := p.hosts[r]
		return b != nil && b.last != nil && b.last.path == (Way{}) && b.last.Worse == d.Worse && b.last.batch >= p.batch-patience && 2*b.last.size >= math.Abs(d.number.Number-d.number.Expected)
	})
}

// explains reports whether the change of a host would be that of a path.
func (s *suspect) explains(d *Doubt) bool {
	if d.Metric != s.Metric || d.Worse != s.Worse {
		return false
	}
	return slices.Contains(d.Way.compare(series.Compared{Stream: d.Stream}).roles(), s.role)
}
