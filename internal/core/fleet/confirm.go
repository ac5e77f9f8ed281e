package fleet

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// answer is what runs with one partner show.
type answer struct {
	*Doubt
	at  series.Look
	y   []float64
	now float64
}

// confirm takes the runs about a doubt.
func (p *Paths) confirm(l *Lease) *Outcome {
	d := p.Doubts[l.Look]
	if d == nil || l.From < d.raised*batchTime { // it answers an earlier doubt
		return nil
	}
	delete(p.Doubts, l.Look)
	if d.change != nil {
		return p.confirmPackets(d, l)
	}
	var y []float64
	if l.State == Done {
		y = d.Numbers(l.Seen())
	}
	s := d.host
	if s == nil {
		p.onPath = slices.DeleteFunc(p.onPath, func(o *Doubt) bool { return o.Way == d.Way && o.Stream == d.Stream })
		if change := p.often[d.Way].Settle(&d.Doubt, y); change != nil {
			return &Outcome{StreamChange: change, Way: d.Way}
		}
		return nil
	}
	s.answered(answer{Doubt: d, at: p.look(seen{id: l.ID, at: l.From}), y: y})
	s.open--
	switch {
	case 4*s.unseen(p.Margin) > len(s.asks): // what is still to come changes nothing
		maps.DeleteFunc(p.Doubts, func(_ int64, d *Doubt) bool { return d.host == s })
		p.notHost(s)
		return nil
	case s.open > 0:
		return nil
	}
	return p.decide(s, l)
}

// ask raises the doubts about a host, and reports whether it could.
func (p *Paths) ask(s *suspect) bool {
	for _, d := range p.Doubts {
		if d.host != nil && d.host.role == s.role {
			return false // it is asked for already
		}
	}
	s.asks = slices.DeleteFunc(s.asks, func(c compared) bool { return p.asked(c.way) })
	if len(s.asks) < partners {
		return false
	}
	each, wrong := 1/math.Sqrt(float64(len(s.asks))), 0.0 // wrong is the error of what was expected, of all partners together
	for _, c := range s.asks {
		about, noise := series.Suspicion{Worse: s.Worse, C: s.C, Reference: c.Expected}, s.scatter
		if c.byHosts {
			noise = max(noise, p.explained[c.Metric].spread)
			about.Reference += p.hosts[s.role].Usual()
		} else {
			noise = p.often[c.way].Series(c.Stream).Noise(noise)
		}
		wrong = math.Hypot(wrong, each*each*stats.MedianError*noise/math.Sqrt(float64(c.Of)))
		p.Doubts[LeaseOf(c.look)] = &Doubt{Doubt: series.Doubt{Stream: c.Stream, Suspicion: about}, Way: c.way, look: c.look, raised: p.batch, host: s}
	}
	drift := p.drift(s) * math.Hypot(1, each) // of the host and of its partners
	s.open, s.margin = len(s.asks), max(p.Margin, math.Hypot(onceIn(len(p.hosts)*driftsOfMonth)*drift, sureWrong*wrong))
	for _, c := range s.asks {
		p.Doubts[LeaseOf(c.look)].Margin = s.margin
	}
	return true
}

const (
	// driftsOfMonth is how often each host drifts anew in four weeks: what drifts lasts for hours (p).
	driftsOfMonth = 4 * 7 * 24
	// sureWrong is how many standard errors what is expected may be wrong (p).
	sureWrong = 2
	// hostE is the evidence that confirms the change of a host with so many partners (p). It is less than
	// series.E, because a host that only drifts is hardly ever so far that its runs could show too much by
	// chance. With fewer partners what is expected of one alone may be wrong.
	hostE, manyPartners = 100, 4
)

// largest returns how many standard errors the largest of n errors has: those that are suspected are
// not any ones.
func largest(n int) float64 { return math.Sqrt(2 * math.Log(float64(max(n, 8)))) }

// onceIn returns how many standard errors one of n errors exceeds on average.
func onceIn(n int) float64 { return math.Sqrt2 * math.Erfinv(1-2/float64(max(n, 8))) }

// unseen returns how many partners have measured enough and do not see half of a change.
func (s *suspect) unseen(by float64) (n int) {
	for _, a := range s.answers {
		if a.whole() && !s.sees(a, by) {
			n++
		}
	}
	return n
}

// sees reports whether runs with a partner show half of a change.
func (s *suspect) sees(a answer, by float64) bool {
	return s.shows(compared{Deviation: Deviation{D: a.now - a.Reference}}, by)
}

// whole reports whether the runs were not cut short.
func (a answer) whole() bool { return len(a.y) >= a.Most() || a.Judge(a.y) != series.Open }

// decide takes the answers about a host: it has changed if three of four partners see half of it, and their
// runs together confirm it, if need be by as many again.
func (p *Paths) decide(s *suspect, l *Lease) *Outcome {
	slices.SortFunc(s.answers, func(a, b answer) int { return cmp.Compare(LeaseOf(a.look), LeaseOf(b.look)) })
	joint := series.Suspicion{Worse: s.Worse, Margin: s.margin}
	var moved []float64
	s.answers = slices.DeleteFunc(s.answers, func(a answer) bool { return !a.whole() })
	n := len(s.answers)
	if n < partners || 2*n < len(s.asks) {
		return nil // too many were cut short: the next batch raises it again
	}
	for i := range series.MostRuns {
		for _, a := range s.answers {
			if i < len(a.y) {
				moved = append(moved, a.y[i]-a.Reference)
			}
		}
	}
	seen := n - s.unseen(max(p.Margin, math.Abs(stats.Median(moved))))
	evidence := float64(series.E)
	if n >= manyPartners {
		evidence = hostE
	}
	switch verdict, by := joint.Decide(moved, len(moved)+1, evidence); {
	case 4*seen < 3*n || verdict == series.Refuted || verdict == series.Open && s.again:
		p.notHost(s)
	case verdict == series.Confirmed:
		return p.moved(s, p.hosts[s.role], by, l)
	default: // most see it, and their runs are too few
		s.again = true
		for _, a := range s.answers {
			p.Doubts[LeaseOf(a.look)] = a.Doubt
			s.open++
		}
	}
	return nil
}

// notHost takes the runs about a host that has not changed as looks at its paths: one of them may have.
func (p *Paths) notHost(s *suspect) {
	for _, a := range s.answers {
		if path := p.often[a.Way]; path != nil && len(a.y) > 0 {
			look := a.at // the path keeps it, and not the answer
			if number, d := path.AddOne(&look, a.Stream, a.now); d != nil {
				p.suspectPath(a.Way, look, number, d)
			}
		}
	}
	p.hosts[s.role].Restart(0)
	p.hosts[s.role].last = nil
}

// answered takes the runs with a partner, which continue those of before.
func (s *suspect) answered(a answer) {
	if len(a.y) == 0 && s.again {
		return
	}
	i := slices.IndexFunc(s.answers, func(o answer) bool { return o.look == a.look })
	if i >= 0 {
		a.y = append(s.answers[i].y, a.y...)
		s.answers = slices.Delete(s.answers, i, i+1)
	}
	if len(a.y) > 0 {
		a.now = stats.Median(a.y)
	}
	s.answers = append(s.answers, a)
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
		size += (a.now - a.Reference) / float64(len(s.answers))
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
		if path := p.often[a.Way]; path != nil {
			path.Changes = append(path.Changes, series.StreamChange{Stream: a.Stream, Change: c})
		}
	}
	o.StreamChange = &series.StreamChange{Stream: s.Stream, Change: c}
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
	for way, path := range p.often {
		stream, other := s.Stream, way.High
		switch s.host {
		case way.Low:
		case way.High:
			if other = way.Low; s.Metric != model.IdleP50 {
				stream.Direction = Turned(stream.Direction)
			}
		default:
			continue
		}
		if back != nil {
			path.Series(stream).Return(back.at, s.host, m.at)
		} else {
			p.movePath(path.Series(stream), s.role, other, b.best, m)
		}
	}
	b.Restart(int(p.batch) - s.Since)
	b.looks = slices.DeleteFunc(b.looks, func(c compared) bool { return c.look.At.Before(m.at) })
	b.now, b.best, b.last = 0, b.best+m.by, nil
	for i := range len(b.numbers) - len(b.looks) {
		b.numbers[i] += float32(m.by)
	}
	p.onPath = slices.DeleteFunc(p.onPath, s.explains)
	maps.DeleteFunc(p.Doubts, func(_ int64, d *Doubt) bool { return d.host == nil && s.explains(d) })
	for i := range p.looks {
		if c := &p.looks[i]; c.Metric == s.Metric && c.Tells(s.host) && slices.Contains(c.roles(), s.role) {
			c.D -= m.by
		}
	}
}
