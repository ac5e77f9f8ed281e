package fleet

import (
	"math"
	"slices"
	"strconv"
	"time"

	"linerate/internal/core/fleet/series"
	"linerate/internal/core/stats"
)

// A thousand hosts have half a million paths, each of which is measured once a week: it never has a
// past of its own to compare with, and its history would be most of a hub's memory.
const (
	seldomKept = 3         // looks of a path that is measured seldom
	seldomFrom = 42 * 3600 // s, from which looks are that far apart (p): 16 in the time of a reference
)

// seldom is a path that is measured seldom: its last looks.
type seldom struct {
	looks [seldomKept]seen // the oldest first
	n     int
}

// seen is a look: the lease, its time in seconds since 1970, and its numbers as Low of the path sees
// them.
type seen struct {
	id, at int64
	series.Numbers
	carried [2]carried // each way
}

func (p *Paths) look(s seen) series.Look {
	return series.Look{At: time.Unix(s.at, 0).In(p.Zone), ID: strconv.FormatInt(s.id, 10)}
}

// add adds a look, and reports whether its path is measured often enough for a history.
func (s *seldom) add(one seen) (history bool) {
	if s.n == seldomKept {
		if one.at-s.looks[0].at <= seldomKept*seldomFrom {
			return true
		}
		copy(s.looks[:], s.looks[1:])
		s.n--
	}
	s.looks[s.n] = one
	s.n++
	return false
}

// history returns a path with these looks, as they count now.
func (p *Paths) history(way Way, looks []seen) *series.Path {
	path := &series.Path{Margin: p.Margin, Alarm: pathAlarm}
	for _, s := range looks {
		path.Add(p.look(s), s.Numbers)
	}
	for _, s := range series.Streams() {
		roles := way.compare(series.Compared{Stream: s}).roles()
		for i, r := range roles {
			b := p.hosts[r]
			if b == nil {
				continue
			}
			best := b.best
			for _, m := range slices.Backward(b.moves) {
				best -= m.by
				p.movePath(path.Series(s), r, roles[1-i].host, best, m)
			}
		}
	}
	return path
}

// Path returns what is known of a path, nil if it was not measured.
func (p *Paths) Path(way Way) *series.Path {
	if path := p.often[way]; path != nil {
		return path
	}
	if s := p.seldom.Get(way); s != nil {
		return p.history(way, s.looks[:s.n])
	}
	return nil
}

// Present returns the present numbers of a path in base units: each is the median of its last three
// looks.
func (p *Paths) Present(way Way) (now series.Numbers) {
	for i, s := range series.Streams() {
		var y []float64
		if path := p.often[way]; path != nil {
			y = path.Series(s).Last(seldomKept)
		} else if few := p.seldom.Get(way); few != nil {
			for _, one := range few.looks[:few.n] {
				y = known(y, []float64{float64(one.Numbers[i])})
			}
		}
		now[i] = float32(math.NaN())
		if len(y) > 0 {
			now[i] = float32(s.Value(stats.Median(y)))
		}
	}
	return now
}

// add adds a look to its path. It returns the stream of the path that may have changed, nil for none,
// and what is known of each.
func (p *Paths) add(way Way, one seen) (doubt *series.Doubt, all []series.Compared) {
	path := p.often[way]
	if path == nil {
		s := p.seldom.Get(way)
		if s == nil {
			s = &seldom{}
			p.seldom.Put(way, s)
		}
		if !s.add(one) {
			return nil, one.Compared()
		}
		path = p.history(way, s.looks[:])
		p.often[way] = path
		p.seldom.Put(way, nil)
	}
	look := p.look(one)
	p.carried[way] = one.carried
	path.Forget(look.At)
	return path.Add(look, one.Numbers)
}
