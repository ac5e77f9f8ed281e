package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// trace returns the routers on the path of direction d that the baseline's runs found, without
// the receiver; nil if they ran no trace.
func (b *builder) trace(d model.Direction) []model.TraceHop {
	for _, r := range slices.Backward(b.s.Runs) {
		for _, e := range r.Ends {
			if r.Setting == b.s.Plan.Baseline && e.Trace != nil && e.Trace.Direction == d && len(e.Trace.Hops) > 0 {
				return slices.DeleteFunc(slices.Clone(e.Trace.Hops), func(h model.TraceHop) bool { return h.Arrived })
			}
		}
	}
	return nil
}

// mark is a link, or one of several, with a result of a check.
type mark struct {
	name       string
	place      model.Place
	directions []model.Direction
	limits     bool
}

// marks returns the links in front of which packets wait, and the narrow ones.
func (b *builder) marks() []mark {
	var out []mark
	add := func(name string, p *model.Place, d model.Direction, limits bool) {
		if p != nil {
			out = append(out, mark{name, *p, []model.Direction{d}, limits})
		}
	}
	for _, d := range []model.Direction{model.To, model.From} {
		f, _ := b.first(d)
		add("full link", f.Place, d, f.Kind != model.FindingFull)
		for _, w := range b.s.Check.Ways {
			if w.Direction == d {
				add("narrow link", w.Narrow, d, !b.measured(d))
			}
		}
	}
	return out
}

// routers returns the boxes for the part between the hosts, if a trace shows it: each router
// with its round trip without and under load, and the links with a known property.
func (b *builder) routers() []Box {
	hops := b.trace(model.To)
	at := map[int][]*mark{} // by the routers before the link
	for _, m := range b.marks() {
		d := m.directions[0]
		before, behind := m.place.Before.Hop, m.place.Behind.Hop
		if m.place.Behind.Host != "" {
			behind = len(hops) + 1
		}
		if d == model.From {
			if len(b.trace(d)) != len(hops) {
				continue // the directions differ, and the row shows the forward one
			}
			before, behind = len(hops)+1-behind, len(hops)+1-before
		}
		if more := behind - before - 1; more > 0 {
			m.name += fmt.Sprintf(", one of %d", more+1)
		}
		if i := slices.IndexFunc(at[before], func(o *mark) bool { return o.name == m.name }); i >= 0 {
			o := at[before][i]
			o.directions, o.limits = append(o.directions, d), o.limits || m.limits
			continue
		}
		at[before] = append(at[before], &m)
	}
	var out []Box
	for n := 0; n <= len(hops); n++ {
		if n > 0 {
			h := hops[n-1]
			box := b.router(h.Address)
			box.Name, box.Detail = "router "+cmp.Or(h.Address, "*"), roundTrips(h)+strings.TrimPrefix(box.Detail, h.Address)
			out = append(out, box)
		}
		for _, m := range at[n] {
			link := Box{Name: m.name, Detail: b.names.Way(m.directions[0]), Limiting: m.limits}
			if len(m.directions) > 1 {
				link.Detail = "both ways"
			}
			out = append(out, link)
		}
	}
	if len(hops) == 0 {
		return nil
	}
	return out
}

// roundTrips formats a router's round trips, without and under load.
func roundTrips(h model.TraceHop) string {
	var parts []string
	for _, times := range [][]time.Duration{h.Idle, h.Loaded} {
		known := slices.Sorted(slices.Values(times))
		known = slices.DeleteFunc(known, func(d time.Duration) bool { return d <= 0 })
		if len(known) > 0 {
			parts = append(parts, units.FormatDuration(known[len(known)/2]))
		}
	}
	switch len(parts) {
	case 0:
		return "does not answer"
	case 1:
		return parts[0]
	}
	return parts[0] + ", loaded " + parts[1]
}
