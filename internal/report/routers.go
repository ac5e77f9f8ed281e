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

// trace is what the runs of the baseline found of the routers on the way of direction d,
// without the receiver; nil where they did not look.
func (b *builder) trace(d model.Direction) []model.TraceHop {
	for _, r := range slices.Backward(b.baselineRuns()) {
		for _, e := range r.Ends {
			if e.Trace != nil && e.Trace.Direction == d && len(e.Trace.Hops) > 0 {
				return slices.DeleteFunc(slices.Clone(e.Trace.Hops), func(h model.TraceHop) bool { return h.Arrived })
			}
		}
	}
	return nil
}

// routers are the boxes of what lies between the hosts, where a trace shows it: each router
// with its round trip without load and under it, and the links in front of which packets wait.
func (b *builder) routers() []Box {
	hops := b.trace(model.To)
	full := map[int][]model.Direction{} // by the routers before the link
	limits := false
	last := map[int]int{} // the routers before its other end
	for _, d := range []model.Direction{model.To, model.From} {
		f, _ := b.first(d)
		if f.Place == nil {
			continue
		}
		before, behind := f.Place.Before.Hop, f.Place.Behind.Hop
		if f.Place.Behind.Host != "" {
			behind = len(hops) + 1
		}
		if d == model.From {
			if len(b.trace(d)) != len(hops) {
				continue // the ways differ, and the row shows the one there
			}
			before, behind = len(hops)+1-behind, len(hops)+1-before
		}
		limits = limits || f.Kind != model.FindingFull
		full[before], last[before] = append(full[before], d), behind
	}
	var out []Box
	for n := 0; n <= len(hops); n++ {
		if n > 0 {
			h := hops[n-1]
			box := b.router(h.Address)
			box.Name, box.Detail = "router "+cmp.Or(h.Address, "*"), roundTrips(h)+strings.TrimPrefix(box.Detail, h.Address)
			out = append(out, box)
		}
		if directions := full[n]; len(directions) > 0 {
			link := Box{Name: "full link", Detail: b.names.Way(directions[0]), Limiting: limits}
			if len(directions) > 1 {
				link.Detail = "both ways"
			}
			if more := last[n] - n - 1; more > 0 {
				link.Name = fmt.Sprintf("full link, one of %d", more+1)
			}
			out = append(out, link)
		}
	}
	return out
}

// roundTrips writes those of a router, without load and under it.
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
