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

// hostAlarm is the sum from which a host is suspected (p): less than for a path, since the number of
// a host comes from several looks.
const hostAlarm = 3

// role is what a host does in a stream: it sends To others, or receives From them.
type role struct {
	host int64
	series.Stream
}

// behaviour is how much worse than expected a host is in a role, from batch to batch.
type behaviour struct {
	series.Detector
	looks []compared // the last ones
	moves []hostMove // changes that still hold, the last one last
	now   float64    // how far it has moved beside them, smoothed over batches
}

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
	effect  float64
	sure    bool
	asks    []compared // looks with partners that are to confirm it
	scatter float64    // of the looks of this batch
	answers []answer
}

// answer is what runs with one partner show.
type answer struct {
	*Doubt
	y   []float64
	now float64
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
			of = append(of, Deviation{c.To, c.From, c.D})
		}
		for _, r := range c.roles() {
			roles[r] = append(roles[r], c)
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
		b := p.hosts[r]
		if b == nil {
			b = &behaviour{}
			p.hosts[r] = b
		}
		b.looks = append(b.looks, roles[r]...)
		b.looks = b.looks[max(0, len(b.looks)-remembered):]
		effect := fit.Sends[r.host]
		if r.Direction == model.From {
			effect = fit.Receives[r.host]
		}
		b.now += (effect - b.now) / smoothing
		with := map[Way]bool{}
		for _, c := range roles[r] {
			with[c.way] = true
		}
		if len(with) < partners {
			continue // it may be the path
		}
		a, _ := b.Detect(effect, p.Margin, int(p.batch))
		if a.Scatter == 0 || math.Abs(effect) < p.Margin/2 || a.Worse != (effect > 0) {
			continue // too little is known, or it is as always
		}
		s := &suspect{role: r, Alarm: a, effect: effect, scatter: scatter}
		s.choose(roles[r], p.Margin)
		s.sure = a.C >= hostAlarm && len(s.asks) == partners
		all = append(all, s)
	}
	return all, scatter
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

// shows reports whether a number deviates like the suspect, by half of a margin or more.
func (s *suspect) shows(c compared, margin float64) bool {
	return c.D >= margin/2 && s.Worse || c.D <= -margin/2 && !s.Worse
}

// choose chooses the partners that are to confirm it: of those that have seen it, the ones of
// which most is known.
func (s *suspect) choose(looks []compared, margin float64) {
	looks = slices.Clone(looks)
	slices.Reverse(looks) // the last look of each
	slices.SortStableFunc(looks, func(a, b compared) int { return cmp.Compare(b.Of, a.Of) })
	for _, c := range looks {
		if len(s.asks) < partners && s.shows(c, margin) && !slices.ContainsFunc(s.asks, func(o compared) bool { return o.way == c.way }) {
			s.asks = append(s.asks, c)
		}
	}
}

// explains reports whether the change of a host would be that of a path.
func (s *suspect) explains(d *Doubt) bool {
	if d.Metric != s.Metric || d.Worse != s.Worse {
		return false
	}
	c := compared{Deviation: Deviation{From: d.Way.Low, To: d.Way.High}, Compared: series.Compared{Stream: d.Stream}}
	if d.Direction == model.From {
		c.From, c.To = c.To, c.From
	}
	return slices.Contains(c.roles(), s.role)
}

// ask raises the doubts about a host, and reports whether it could.
func (p *Paths) ask(s *suspect) bool {
	for _, d := range p.Doubts {
		if d.host != nil && d.host.role == s.role {
			return false // it is asked for already
		}
	}
	var doubts []*Doubt
	for _, c := range s.asks {
		of := p.Of[c.way].Series(c.Stream).Suspect(c.look, s.Alarm, c.Compared, largest(len(p.hosts))/math.Sqrt(partners), s.scatter)
		d := &Doubt{Doubt: series.Doubt{Stream: c.Stream, Suspicion: of}, Way: c.way, look: c.look, raised: p.batch, host: s}
		if p.asked(d.Way) {
			return false
		}
		doubts = append(doubts, d)
	}
	for _, d := range doubts {
		p.doubt(d)
	}
	return true
}

// largest returns how many standard errors the largest of n errors has: those that are suspected are
// not any ones, and their references are the ones that are wrong the most.
func largest(n int) float64 { return math.Sqrt(2 * math.Log(float64(max(n, 8)))) }

// decide takes the answers about a host: it has changed if all partners see it, and their runs
// together confirm it.
func (p *Paths) decide(s *suspect, l *Lease) *Outcome {
	slices.SortFunc(s.answers, func(a, b answer) int { return cmp.Compare(LeaseOf(a.look), LeaseOf(b.look)) })
	joint := series.Suspicion{Worse: s.Worse}
	var moved []float64
	seen := 0
	for _, a := range s.answers {
		if len(a.y) < a.Most() && a.Judge(a.y) == series.Open {
			return nil // it was cut short: the next batch raises it again
		}
		joint.Margin += a.Margin / partners
		if s.shows(compared{Deviation: Deviation{D: a.now - a.Reference}}, p.Margin) {
			seen++
		}
	}
	for i := range series.MostRuns {
		for _, a := range s.answers {
			if i < len(a.y) {
				moved = append(moved, a.y[i]-a.Reference)
			}
		}
	}
	b := p.hosts[s.role]
	verdict, by := joint.Decide(moved, len(moved))
	if verdict == series.Confirmed && seen == partners {
		return p.moved(s, b, by, l)
	}
	b.Restart(0)
	return nil
}

// since returns the first look with a change by so much, and the last one without it: where the
// looks since the last change most look like two levels.
func (b *behaviour) since(by float64) (since, before series.Look) {
	var x []float64
	for _, c := range b.looks {
		x = append(x, max(-2*math.Abs(by), min(c.D, 2*math.Abs(by)))) // a run may have stalled
	}
	at := min(max(1, stats.BestSplit(x).At), len(x)-1)
	return b.looks[at].look, b.looks[max(0, at-1)].look // there are two at least: those of its partners
}

// moved returns the confirmed change of a host.
func (p *Paths) moved(s *suspect, b *behaviour, by stats.Interval, l *Lease) *Outcome {
	o, size := &Outcome{Host: s.host}, 0.0
	for _, a := range s.answers {
		size += (a.now - a.Reference) / partners
		far := a.Way.Low
		if far == s.host {
			far = a.Way.High
		}
		o.With = append(o.With, With{far, a.Value(a.Reference), a.Value(a.now)})
	}
	c := series.Change{Worse: s.Worse, By: by, Found: series.Look{At: time.Unix(l.From, 0).In(p.Zone), ID: s.answers[0].look.ID}}
	c.Since, c.Before = b.since(size)
	p.shift(s, b, hostMove{c.Since.At, size})
	for _, a := range s.answers {
		c.Was, c.Now = a.Reference, a.now
		p.Of[a.Way].Changes = append(p.Of[a.Way].Changes, series.Told{Stream: a.Stream, Change: c})
	}
	o.Told = &series.Told{Stream: s.Stream, Change: c}
	if s.Metric != model.IdleP50 {
		o.Direction = Turned(s.Direction)
	}
	o.Moved = map[int64]bool{}
	for r, b := range p.hosts {
		if r.Stream == s.Stream {
			o.Moved[r.host] = b.shift()/size >= 0.5
		}
	}
	return o
}

// shift returns how far a host has moved since its references were made.
func (b *behaviour) shift() float64 {
	by := b.now
	for _, m := range b.moves {
		by += m.by
	}
	return by
}

// shift takes the change of a host into all its paths, so that no path is reported by itself.
func (p *Paths) shift(s *suspect, b *behaviour, m hostMove) {
	var back *hostMove // the change before, if the host is as it was before that
	if n := len(b.moves); n > 0 && (b.moves[n-1].by > 0) != (m.by > 0) && math.Abs(m.by+b.moves[n-1].by) <= s.answers[0].Margin {
		back, b.moves = &b.moves[n-1], b.moves[:n-1]
	} else {
		b.moves = append(b.moves, m)
	}
	for way, path := range p.Of {
		stream := s.Stream
		switch {
		case way.Low != s.host && way.High != s.host:
			continue
		case way.High == s.host && s.Metric != model.IdleP50:
			stream.Direction = Turned(stream.Direction)
		}
		if back != nil {
			path.Series(stream).Return(back.at, back.by, m.at)
		} else {
			path.Series(stream).Move(m.at, m.by)
		}
	}
	b.Restart(int(p.batch) - s.Since)
	b.now = 0
	b.looks = slices.DeleteFunc(b.looks, func(c compared) bool { return c.look.At.Before(m.at) })
	p.onPath = slices.DeleteFunc(p.onPath, s.explains)
	maps.DeleteFunc(p.Doubts, func(_ int64, d *Doubt) bool { return d.host == nil && s.explains(d) })
	for i := range p.looks {
		if c := &p.looks[i]; c.Metric == s.Metric && slices.Contains(c.roles(), s.role) {
			c.D -= m.by
		}
	}
}
