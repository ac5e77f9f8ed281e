package hub

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"linerate/internal/app/watch"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// present is how many looks the present state of a path is the median of.
const present = 3

// status returns the state of the fleet.
func (h *Hub) status() fleet.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	s := fleet.Status{
		Now: h.at(now), Hosts: []fleet.HostStatus{}, Ways: []fleet.WayStatus{}, Hour: fleet.Tally{}, Queue: []fleet.Entry{}, Recent: []fleet.Entry{},
		Changes: newest(h.changes), Alerts: newest(h.told), Faults: []string{}, Rounds: int(3600 / h.round), Setup: h.setup, Shared: h.shared(),
	}
	if h.fault != nil {
		s.Faults = append(s.Faults, "nothing can be stored; agents keep their results: "+h.fault.Error())
	}
	for _, one := range h.hosts {
		if !one.Removed {
			s.Hosts = append(s.Hosts, h.hostStatus(one, now))
		}
	}
	slices.SortFunc(s.Hosts, func(a, b fleet.HostStatus) int { return cmp.Compare(a.Name, b.Name) })
	for i, a := range s.Hosts {
		for _, b := range s.Hosts[:i] {
			s.Ways = append(s.Ways, h.wayStatus(fleet.Way{Low: min(a.ID, b.ID), High: max(a.ID, b.ID)}))
		}
	}
	h.costs(&s)
	for _, l := range h.open {
		s.Queue = append(s.Queue, h.entry(l))
	}
	slices.SortFunc(s.Queue, func(a, b fleet.Entry) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Lease, b.Lease)) })
	s.Queue = s.Queue[:min(len(s.Queue), shown)]
	for i := range h.recent {
		if l := &h.recent[i]; l.Reported > now-3600 {
			s.Hour[l.State]++
		}
	}
	for _, l := range newest(h.recent) {
		s.Recent = append(s.Recent, h.entry(&l))
	}
	return s
}

// costs sets how much each host measures in an hour.
func (h *Hub) costs(s *fleet.Status) {
	for i := range s.Hosts {
		one := &s.Hosts[i]
		one.Looks = min(s.Rounds, int(one.Limits.Share*3600/window))
		var rates []float64
		for _, w := range s.Ways {
			if w.Low == one.ID && w.To != nil {
				rates = append(rates, *w.To)
			} else if w.High == one.ID && w.From != nil {
				rates = append(rates, *w.From)
			}
		}
		if len(rates) > 0 {
			q := watch.Request{ProbeOnly: one.Limits.ProbeOnly, Time: fleet.BulkTime}
			all := units.Bytes(one.Looks) * q.Bytes(units.BitRate(stats.Median(rates)), 0)
			one.Sends = &all
		}
	}
}

// newest returns the last entries of a list, the last one first.
func newest[T any](all []T) []T {
	out := append([]T{}, all[max(0, len(all)-shown):]...)
	slices.Reverse(out)
	return out
}

func (h *Hub) hostStatus(one *fleet.Host, now int64) fleet.HostStatus {
	s := fleet.HostStatus{ID: one.ID, Name: one.Name, Version: one.Version, Joined: h.at(one.Joined), Seen: h.at(one.Seen), Silent: now-one.Seen >= fleet.SilentAfter, Notes: []string{}, Limits: h.setup.Limits(one), Waiting: one.Waiting, Lost: one.Lost}
	note := func(format string, args ...any) { s.Notes = append(s.Notes, fmt.Sprintf(format, args...)) }
	if s.Silent {
		note("not heard of since %s", s.Seen.Format("2006-01-02 15:04:05"))
	}
	if one.Drained == fleet.Endless {
		note("drained until an operator resumes it")
	} else if one.Drained > 0 {
		note("drained until %s", h.at(one.Drained).Format("2006-01-02 15:04"))
	}
	if one.Twin != "" {
		note("a copy of it at %s uses the same key, and is refused", one.Twin)
	}
	if one.Ahead != 0 {
		note("its clock is wrong by %s", time.Duration(one.Ahead)*time.Second)
	}
	if one.Lost > 0 {
		note("%d of its results were lost: its disk is full", one.Lost)
	}
	return s
}

func (h *Hub) wayStatus(way fleet.Way) fleet.WayStatus {
	s := fleet.WayStatus{Low: way.Low, High: way.High, Problem: h.between(way).problem}
	p := h.paths.Path(way)
	if p == nil {
		return s
	}
	s.Last = p.Last.At
	for _, one := range []struct {
		of series.Stream
		to **float64
	}{
		{series.Stream{Metric: model.Goodput, Direction: model.To}, &s.To}, {series.Stream{Metric: model.Goodput, Direction: model.From}, &s.From},
		{series.Stream{Metric: model.IdleP50, Direction: model.To}, &s.RoundTrip},
		{series.Stream{Metric: model.LossRatio, Direction: model.To}, &s.LossTo}, {series.Stream{Metric: model.LossRatio, Direction: model.From}, &s.LossFrom},
	} {
		if _, y := p.Series(one.of).Looks(); len(y) > 0 {
			v := one.of.Value(stats.Median(y[max(0, len(y)-present):]))
			*one.to = &v
		}
	}
	return s
}

func (h *Hub) entry(l *fleet.Lease) fleet.Entry {
	return fleet.Entry{Lease: l.ID, Kind: l.Kind, Near: h.name(l.Near), Far: h.name(l.Far), From: h.at(l.From), Until: h.at(l.Until), State: l.State, Reason: l.Reason}
}
