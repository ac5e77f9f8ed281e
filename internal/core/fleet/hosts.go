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

// answer is what runs with one partner show.
type answer struct {
	*Doubt
	at  series.Look
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

const (
	// driftOver is over how many batches the drift of all hosts is smoothed (p), and ownDrift from how many
	// looks that of one is taken.
	driftOver, ownDrift = 48, 24
	firstDrift          = 0.03 // is assumed until then at least (p; fleet.md section 6.3)
	// restless is how many times the drift of all a host drifts that is judged by its own (p): that
	// of so few looks is hardly known.
	restless = 3
)

// learnDrift takes the drift of all hosts in a metric, smoothed over batches: that of one is hardly known.
func (p *Paths) learnDrift(m model.Metric) {
	var means, halves []float64
	for r, b := range p.hosts {
		if r.Metric == m {
			means, halves = b.steps(p.batch, means, halves)
		}
	}
	if d := p.drifts[m]; len(means) >= ownDrift {
		d.batches = min(d.batches+1, driftOver)
		d.by += (lasting(means, halves) - d.by) / d.batches
	}
}

// drift is how far all hosts drift in a metric, and from how many batches that is known.
type drift struct{ by, batches float64 }

// drift returns the scatter of what lasts from look to look without a change, of all hosts in a
// metric together, or of a suspected one that is restless.
func (p *Paths) drift(s *suspect) float64 {
	d := p.drifts[s.Metric]
	all := d.by
	if d.batches < driftOver { // what is usual of them comes from the same hours, and hides it
		all = max(all, firstDrift)
	}
	if means, halves := p.hosts[s.role].steps(int64(s.Since)-1, nil, nil); len(means) >= ownDrift {
		if own := lasting(means, halves); own > restless*all {
			return own
		}
	}
	return all
}

// steps adds the means of, and half the differences between, consecutive looks until a batch: what lasts,
// and so belongs to the host and not to the partner, is in the means alone.
func (b *behaviour) steps(until int64, means, halves []float64) (m, h []float64) {
	for i := range max(0, len(b.looks)-1) {
		one, next := b.looks[i], b.looks[i+1]
		if one.way != next.way && next.look.At.Unix()/batchTime <= until {
			means, halves = append(means, (one.D+next.D)/2), append(halves, (one.D-next.D)/2)
		}
	}
	return means, halves
}

// lasting returns the scatter of what two consecutive looks share: that of their means without
// that of their half differences.
func lasting(means, halves []float64) float64 {
	if len(means) < 2 {
		return 0
	}
	m, h := stats.Scatter(means), stats.Scatter(halves)
	return math.Sqrt(max(0, m*m-h*h))
}

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
			path.Changes = append(path.Changes, series.Told{Stream: a.Stream, Change: c})
		}
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
