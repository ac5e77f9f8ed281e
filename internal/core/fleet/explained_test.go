package fleet

import (
	"math"
	"testing"
	"time"

	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestSeldom: a path is worth a history from the look on that is the fourth within 126 hours.
func TestSeldom(t *testing.T) {
	const hour = 3600
	for _, c := range []struct {
		every int64 // hours
		looks int   // until it is one; 0 is never
	}{{1, 4}, {42, 4}, {43, 0}, {168, 0}} {
		var s seldom
		got := 0
		for i := range 20 {
			if s.add(seen{id: int64(i), at: int64(i) * c.every * hour}) {
				got = i + 1
				break
			}
		}
		must.Equal(t, got, c.looks, "every %d h", c.every)
	}
	p := Paths{Zone: time.UTC, Margin: .1}
	rate := 1e9
	take := func(id, at int64) {
		p.Take(&Lease{ID: id, Near: 1, Far: 2, Kind: Visit, State: Done, Span: Span{From: at}, Runs: []Run{{Part: series.Bulk, Direction: model.To, Goodput: &rate}}})
	}
	for i := range int64(6) {
		take(i+1, i*200*hour)
		must.Equal(t, p.Path(Way{1, 2}).Count, min(int(i)+1, seldomKept), "looks after %d", i+1)
	}
	for i := range int64(3) {
		take(10+i, (1001+i)*hour)
	}
	must.True(t, p.Path(Way{1, 2}).Count == 4 && len(p.seldom) == 0 && p.Path(Way{1, 3}) == nil, "measured often now: %+v", p.Path(Way{1, 2}))
}

// TestSlowerEnd: of hosts of 1 and of 10 the slower one explains a path. It alone is seen there, and it alone
// moves the path; a path that they do not explain moves with either.
func TestSlowerEnd(t *testing.T) {
	to := series.Stream{Metric: model.Goodput, Direction: model.To}
	from := series.Stream{Metric: model.Goodput, Direction: model.From}
	fast, slow := -math.Log(10), 0.
	p := Paths{Margin: .1, explained: map[model.Metric]*explained{model.Goodput: {spread: .05}}, hosts: map[role]*behaviour{
		{1, to}: {best: fast, known: true}, {2, from}: {best: slow, known: true}, {3, from}: {best: fast, known: true}, {4, from}: {},
	}}
	for _, c := range []struct {
		to   int64
		d    float64
		only int64
	}{{2, 0, 2}, {2, .3, 0}, {3, 0, 0}, {4, 0, 0}} {
		look := compared{Deviation: Deviation{From: 1, To: c.to, D: c.d}, Compared: series.Compared{Stream: to}}
		must.Equal(t, p.slower(&look), c.only, "to %d, worse by %v", c.to, c.d)
	}
	at := time.Unix(1e9, 0)
	for _, c := range []struct {
		to          int64
		carried, by float64
	}{{2, slow, 0}, {2, slow + 1, .5}, {3, fast, .5}, {4, slow, .5}} {
		path := &series.Path{Margin: .1}
		for i := range 8 {
			path.Add(series.Look{At: at.Add(time.Duration(i-8) * time.Hour)}, series.Numbers{float32(c.carried)})
		}
		s := path.Series(to)
		before, _ := s.Reference(at)
		p.movePath(s, role{1, to}, c.to, fast, hostMove{at, .5})
		after, n := s.Reference(at)
		must.True(t, n == 8 && math.Abs(after-before-c.by) < 1e-6, "to %d: from %v to %v, want %v more", c.to, before, after, c.by)
	}
}
