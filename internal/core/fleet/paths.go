package fleet

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
)

const (
	batchTime = 1800 // s, whose looks are compared with each other (p)
	patience  = 3    // batches in which the runs about a doubt have to come (p)
	waits     = 5    // batches in which they have to be asked for, about a path (p)
	// most suspicions of a batch that runs are to confirm, about hosts and about paths: a share of the hosts,
	// and never fewer than a few (p).
	suspicionsOf, fewSuspicions = 25, 2
	pathsOf, fewPaths           = 8, 4
	// partners with which the change of a host has to be confirmed, at least and at most (p): each may
	// be wrong in a way of its own.
	partners, mostPartners = 2, 8
	remembered             = 48 // looks of a host, to find since when it has changed (p)
)

// Paths are the histories of all paths, made from leases in the order of their results. The zero
// value with a margin and a zone is empty and ready to use.
type Paths struct {
	Margin float64 // smaller changes do not count
	Zone   *time.Location
	Doubts map[int64]*Doubt // what runs are to confirm, by the look that raised it

	often     map[Way]*series.Path
	seldom    Grid[seldom]
	batch     int64      // of the looks below
	looks     []compared // with what was expected
	onPath    []*Doubt   // of the last batches, before runs are asked for
	hosts     map[role]*behaviour
	explained map[model.Metric]*explained
	drifts    map[model.Metric]*drift // of all hosts together

	carried map[Way][2]carried // of paths that are measured often
	odd     map[role]*oddity
	settled map[role]float64 // the last change of each host
	unsure  []*Doubt         // about packets, before runs confirm them
}

// compared is a number of a look, as the sender's.
type compared struct {
	Deviation
	series.Compared // as Low sees it
	look            series.Look
	way             Way
	byHosts         bool // what was expected comes from the hosts
}

// Doubt is a suspicion about a path, or about one of its hosts.
type Doubt struct {
	series.Doubt
	Way    Way
	look   series.Look
	raised int64                // batch: of the look, then of asking for runs
	number series.Compared      // about a path: what raised it
	host   *suspect             // nil if it is about the path
	change *series.StreamChange // if it is about packets: the change
}

// Until returns until when runs about it are of use, in seconds since 1970.
func (d *Doubt) Until() int64 { return (d.raised + patience) * batchTime }

// Host returns the host that it is about, 0 if it is about the path.
func (d *Doubt) Host() int64 {
	if d.host == nil {
		return 0
	}
	return d.host.host
}

// Most returns how many runs confirm it at most. Those with the partners of a host count together.
func (d *Doubt) Most() int {
	switch {
	case d.change != nil:
		return packetRuns
	case d.host != nil:
		return series.MostRuns / len(d.host.asks)
	}
	return series.MostRuns
}

// Outcome is a change that runs have confirmed, of a path or of a host on all its paths.
type Outcome struct {
	*series.StreamChange                // as Low of the path sees it, or as the others see the host
	Way                  Way            // of the path
	Host                 int64          // 0 for a path
	With                 []With         // the partners that confirmed it of a host
	Moved                map[int64]bool // whether each host has changed alike, at least half as far, as its looks show it
}

// With is what the change of a host means for one partner.
type With struct {
	Host     int64
	Was, Now float64
}

// Take adds the result of a lease, and returns the change that it confirms, nil for none.
func (p *Paths) Take(l *Lease) *Outcome {
	if p.often == nil {
		p.often, p.Doubts, p.hosts = map[Way]*series.Path{}, map[int64]*Doubt{}, map[role]*behaviour{}
		p.carried, p.odd, p.settled = map[Way][2]carried{}, map[role]*oddity{}, map[role]float64{}
		p.drifts = map[model.Metric]*drift{model.Goodput: {}, model.IdleP50: {}, model.LossRatio: {}}
		p.explained = map[model.Metric]*explained{model.Goodput: {}, model.LossRatio: {}}
	}
	if l.Kind == Confirm {
		return p.confirm(l)
	}
	if l.State != Done || len(l.Runs) == 0 {
		return nil
	}
	if n := l.From / batchTime; n > p.batch || n < p.batch-day/batchTime { // earlier by a day: a clock was set
		p.compare()
		p.batch = n
	}
	way, runs := l.Way(), l.Seen()
	one := seen{id: l.ID, at: l.From, Numbers: series.NumbersOf(runs)}
	look := p.look(one)
	var o *Outcome
	one.carried, o = p.packets(way, look, runs)
	p.raise(l.From)
	doubt, all := p.add(way, one)
	for _, one := range all {
		if doubt != nil && one.Stream == doubt.Stream {
			p.suspectPath(way, look, one, doubt)
		}
		c := way.compare(one)
		c.look = look
		p.expect(&c)
		if c.Of > 0 {
			p.looks = append(p.looks, c)
		}
	}
	return o
}

// suspectPath keeps a doubt about a path that a number has raised.
func (p *Paths) suspectPath(way Way, look series.Look, number series.Compared, d *series.Doubt) {
	p.onPath = append(p.onPath, &Doubt{Doubt: *d, Way: way, look: look, raised: p.batch, number: number})
}

// compare compares the looks of a batch, and chooses what is to be confirmed: hosts rather than
// their paths, the largest change and the surest doubt first.
func (p *Paths) compare() {
	for look, d := range p.Doubts {
		if d.raised < p.batch-patience {
			delete(p.Doubts, look) // no result came
			if d.host != nil {
				d.host.open--
			}
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
		p.learnDrift(m)
	}
	for _, d := range p.onPath {
		d.Margin = max(d.Margin, p.often[d.Way].Series(d.Stream).Suspect(d.look, series.Alarm{}, d.number, largest(2*len(p.often)), scatter[d.Metric]).Margin)
	}
	p.onPath = slices.DeleteFunc(p.onPath, p.byHost)
	slices.SortStableFunc(all, func(a, b *suspect) int { return cmp.Compare(b.weight(), a.weight()) })
	slices.SortStableFunc(p.onPath, func(a, b *Doubt) int { return cmp.Compare(b.C, a.C) })
	left := max(fewSuspicions, len(hosts)/suspicionsOf)
	for _, s := range all {
		if left > 0 && s.sure && p.ask(s) {
			left--
		}
	}
	left = max(fewPaths, len(hosts)/pathsOf)
	p.onPath = slices.DeleteFunc(p.onPath, func(d *Doubt) bool { // those that the looks since then did not explain by a host
		if left > 0 && d.raised < p.batch-1 && !p.hostAsked(d) && p.doubt(d) {
			left--
			return true
		}
		return d.raised < p.batch-waits
	})
	p.learn()
	p.looks = nil
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

// hostAsked reports whether runs are to confirm the change of a host that would be that of a path.
func (p *Paths) hostAsked(d *Doubt) bool {
	for _, o := range p.Doubts {
		if o.host != nil && o.host.explains(d) {
			return true
		}
	}
	return false
}

// LeaseOf returns the number of the lease that a look of Paths was.
func LeaseOf(l series.Look) int64 {
	id, _ := strconv.ParseInt(l.ID, 10, 64) // Take wrote it
	return id
}

// doubt raises a doubt, unless there is one about its path.
func (p *Paths) doubt(d *Doubt) bool {
	if p.asked(d.Way) {
		return false
	}
	d.raised = p.batch
	p.Doubts[LeaseOf(d.look)] = d
	return true
}
