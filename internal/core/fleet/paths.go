package fleet

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

const (
	// batch is the time whose looks are compared with each other, in seconds (p).
	batch    = 1800
	patience = 3 // batches in which the runs about a doubt have to come (p)
	// most suspicions of a batch that runs are to confirm: a share of the hosts, and never fewer
	// than a few (p). Each is wrong with a chance of at most 1/series.E.
	suspicionsOf, fewSuspicions = 50, 2
	// partners with which the change of a host has to be confirmed.
	partners = 2
	// forget is how long the numbers of a path are remembered: as long as a reference uses them.
	forget = 28 * 24 * time.Hour
	// known is how many looks of a host are remembered, to find since when it has changed.
	known = 48
)

// Paths are the histories of all paths, made from leases in the order of their results. The zero
// value with a margin and a zone is empty and ready to use.
type Paths struct {
	Margin float64 // smaller changes do not count
	Zone   *time.Location
	Of     map[Way]*series.Path
	Doubts map[int64]*Doubt // what runs are to confirm, by the look that raised it

	number int64      // of the batch of the looks below
	looks  []compared // with what was expected
	alone  []*Doubt   // of paths, in this batch and the one before
	hosts  map[role]*behaviour
}

// compared is a number of a look, as the sender's.
type compared struct {
	Deviation
	look     series.Look
	way      Way
	stream   series.Stream // as Low sees it
	expected float64
	of       int // values that this comes from
}

// Doubt is a suspicion about a path, or about one of its hosts.
type Doubt struct {
	series.Doubt
	Way    Way
	look   series.Look
	raised int64    // batch
	host   *suspect // nil if it is about the path
}

// Until returns until when runs about it are of use, in seconds since 1970.
func (d *Doubt) Until() int64 { return (d.raised + patience) * batch }

// Outcome is a change that runs have confirmed, of a path or of a host on all its paths.
type Outcome struct {
	*series.Told        // as Low of the path sees it, or as the others see the host
	Way          Way    // of the path
	Host         int64  // 0 for a path
	With         []With // the partners that confirmed it of a host
}

// With is what the change of a host means for one partner.
type With struct {
	Host     int64
	Was, Now float64
}

// Take adds the result of a lease, and returns the change that it confirms, nil for none.
func (p *Paths) Take(l *Lease) *Outcome {
	if p.Of == nil {
		p.Of, p.Doubts, p.hosts = map[Way]*series.Path{}, map[int64]*Doubt{}, map[role]*behaviour{}
	}
	if l.Kind == Confirm {
		return p.confirm(l)
	}
	if l.State != Done || len(l.Runs) == 0 {
		return nil
	}
	if n := l.From / batch; n > p.number || n < p.number-day/batch { // earlier by a day: a clock was set
		p.compare()
		p.number = n
	}
	way := l.Way()
	path := p.Of[way]
	if path == nil {
		path = &series.Path{Margin: p.Margin}
		p.Of[way] = path
	}
	path.Forget(time.Unix(l.From, 0).Add(-forget))
	look, runs := series.Look{At: time.Unix(l.From, 0).In(p.Zone), ID: strconv.FormatInt(l.ID, 10)}, l.Seen()
	for _, s := range series.Streams() {
		y := s.Numbers(runs)
		ref, n := path.Series(s).Reference(look.At)
		if len(y) == 0 || n == 0 {
			continue
		}
		c := compared{Deviation{way.Low, way.High, y[0] - ref}, look, way, s, ref, n}
		if s.Direction == model.From {
			c.From, c.To = c.To, c.From
		}
		p.looks = append(p.looks, c)
	}
	if d := path.Add(look, runs); d != nil {
		p.alone = append(p.alone, &Doubt{Doubt: *d, Way: way, look: look, raised: p.number})
	}
	return nil
}

// compare compares the looks of a batch, and chooses what is to be confirmed: hosts rather than
// their paths, the surest first.
func (p *Paths) compare() {
	for look, d := range p.Doubts {
		if d.raised < p.number-patience {
			delete(p.Doubts, look) // no result came
		}
	}
	var all []*suspect
	hosts := map[int64]bool{}
	for _, c := range p.looks {
		hosts[c.From], hosts[c.To] = true, true
	}
	scatter := map[model.Metric]float64{}
	for _, m := range []model.Metric{model.Goodput, model.IdleP50, model.LossRatio} {
		var of []*suspect
		of, scatter[m] = p.suspects(m)
		all = append(all, of...)
	}
	for _, d := range p.alone {
		for _, c := range p.looks {
			if c.look == d.look && c.stream == d.Stream {
				d.Margin = max(d.Margin, p.Of[d.Way].Series(d.Stream).Suspect(d.look, series.Alarm{}, c.expected, c.of, largest(2*len(p.Of)), scatter[c.stream.Metric]).Margin)
			}
		}
	}
	p.alone = slices.DeleteFunc(p.alone, func(d *Doubt) bool {
		return slices.ContainsFunc(all, func(s *suspect) bool { return s.explains(d) })
	})
	slices.SortStableFunc(all, func(a, b *suspect) int { return cmp.Compare(math.Abs(b.effect), math.Abs(a.effect)) })
	slices.SortStableFunc(p.alone, func(a, b *Doubt) int { return cmp.Compare(b.C, a.C) })
	left := max(fewSuspicions, len(hosts)/suspicionsOf)
	for _, s := range all {
		if left > 0 && s.sure && p.ask(s) {
			left--
		}
	}
	for _, d := range p.alone { // those that the looks since then did not explain by a host
		if left > 0 && d.raised < p.number && p.doubt(d) {
			left--
		}
	}
	p.looks, p.alone = nil, slices.DeleteFunc(p.alone, func(d *Doubt) bool { return d.raised < p.number })
}

// asked reports whether runs are to confirm something of a path already.
func (p *Paths) asked(w Way) bool {
	for _, d := range p.Doubts {
		if d.Way == w {
			return true
		}
	}
	return false
}

func number(l series.Look) int64 {
	id, _ := strconv.ParseInt(l.ID, 10, 64) // Take wrote it
	return id
}

// doubt raises a doubt, unless there is one about its path.
func (p *Paths) doubt(d *Doubt) bool {
	if p.asked(d.Way) {
		return false
	}
	p.Doubts[number(d.look)] = d
	return true
}

// confirm takes the runs about a doubt.
func (p *Paths) confirm(l *Lease) *Outcome {
	d := p.Doubts[l.Look]
	if d == nil {
		return nil
	}
	delete(p.Doubts, l.Look)
	var y []float64
	if l.State == Done {
		y = d.Numbers(l.Seen())
	}
	s := d.host
	if s == nil {
		if told := p.Of[d.Way].SettleNumbers(&d.Doubt, y); told != nil {
			return &Outcome{Told: told, Way: d.Way}
		}
		return nil
	}
	a := answer{Doubt: d, y: y}
	if a.verdict = d.Judge(y); len(y) > 0 {
		a.now = stats.Median(y)
	}
	if s.answers = append(s.answers, a); len(s.answers) < partners {
		return nil
	}
	return p.decide(s, l)
}
