package hub

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"linerate/internal/app/watch"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// status returns the state of the fleet without its present numbers, which rows returns.
func (h *Hub) status() fleet.Status {
	s := h.state()
	hosts := numbers(&s)
	for i := range s.Hosts {
		one := &s.Hosts[i]
		one.Looks = min(s.Rounds, int(one.Limits.Share*3600/window))
		var each []float64 // bytes of a look with each other host: they take turns
		for j, rate := range h.row(one.ID, hosts).Goodput[0] {
			q := watch.Request{ProbeOnly: one.Limits.ProbeOnly || s.Hosts[j].Limits.ProbeOnly, Time: fleet.BulkTime}
			if j != i && (q.ProbeOnly || !math.IsNaN(rate)) {
				each = append(each, float64(q.Bytes(units.BitRate(rate), 0)))
			}
		}
		if len(each) > 0 {
			all := units.Bytes(float64(one.Looks) * stats.Mean(each))
			one.Sends = &all
		}
	}
	return s
}

// numbers returns the numbers of the hosts, in their order.
func numbers(s *fleet.Status) []int64 {
	return lists.Each(s.Hosts, func(h fleet.HostStatus) int64 { return h.ID })
}

// state returns the state of the fleet without what its hosts send.
func (h *Hub) state() fleet.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	s := fleet.Status{
		Now: h.at(now), Hosts: []fleet.HostStatus{}, Problems: []fleet.Problem{}, Hour: fleet.Tally{}, Queue: []fleet.Entry{}, Recent: []fleet.Entry{},
		Changes: newest(h.changes), Alerts: newest(h.raised), Faults: []string{}, Rounds: int(3600 / h.round), Setup: h.setup, Shared: h.shared(),
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
	s.Pairs = len(s.Hosts) * (len(s.Hosts) - 1) / 2
	for way, p := range h.pairs.All() {
		low, high := h.hosts[way.Low], h.hosts[way.High]
		if low == nil || high == nil || low.Removed || high.Removed {
			continue
		}
		if p.last > now-24*hour {
			s.Seen++
		}
		if p.problem != nil {
			s.Failed++
			s.Problems = append(s.Problems, fleet.Problem{Near: low.Name, Far: high.Name, Text: p.problem.text})
		}
	}
	slices.SortFunc(s.Problems, func(a, b fleet.Problem) int { return cmp.Or(cmp.Compare(a.Near, b.Near), cmp.Compare(a.Far, b.Far)) })
	s.Problems = s.Problems[:min(len(s.Problems), shown)]
	for l := range h.open() {
		s.Queue = append(s.Queue, h.entry(l))
	}
	slices.SortFunc(s.Queue, func(a, b fleet.Entry) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Lease, b.Lease)) })
	s.Queue = s.Queue[:min(len(s.Queue), shown)]
	for i := range h.recent {
		if l := &h.recent[i]; l.Reported > now-hour {
			s.Hour[l.State]++
		}
	}
	for _, l := range newest(h.recent) {
		s.Recent = append(s.Recent, h.entry(&l))
	}
	return s
}

// row returns the present numbers from a host to others.
func (h *Hub) row(from int64, to []int64) fleet.Present {
	row := fleet.NewRow(len(to))
	h.mu.Lock() // not longer than a row takes
	defer h.mu.Unlock()
	for i, id := range to {
		p, out := h.pairs.Get(fleet.Way{Low: min(from, id), High: max(from, id)}), model.To
		if from > id {
			out = model.From
		}
		if p != nil && p.last > 0 {
			row.Goodput[0][i] = p.now.Of(series.Stream{Metric: model.Goodput, Direction: out})
			row.RoundTrip[0][i] = p.now.Of(series.Stream{Metric: model.IdleP50, Direction: model.To})
			row.Loss[0][i] = p.now.Of(series.Stream{Metric: model.LossRatio, Direction: out})
			row.Looked[0][i] = p.last
		}
	}
	return row
}

// rows writes the present numbers between hosts, a row at a time: all of a thousand hosts are many.
func (h *Hub) rows(w io.Writer, hosts []int64) {
	to := json.NewEncoder(w)
	for _, id := range hosts {
		if to.Encode(h.row(id, hosts)) != nil {
			return // a client that is gone does not need it
		}
	}
}

// whole returns the state of the fleet with its present numbers.
func (h *Hub) whole() fleet.Status {
	s := h.status()
	hosts := numbers(&s)
	for _, id := range hosts {
		_ = s.Present.Add(h.row(id, hosts), len(hosts)) // it has this size
	}
	return s
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
		note("it and %s use one key; the one that started first is refused: start the copy once with --rejoin", one.Twin)
	}
	if one.Ahead != 0 {
		note("its clock is wrong by %s", time.Duration(one.Ahead)*time.Second)
	}
	if one.Lost > 0 {
		note("%d of its results were lost: its disk is full", one.Lost)
	}
	return s
}

func (h *Hub) entry(l *fleet.Lease) fleet.Entry {
	return fleet.Entry{Lease: l.ID, Kind: l.Kind, Near: h.name(l.Near), Far: h.name(l.Far), From: h.at(l.From), Until: h.at(l.Until), State: l.State, Reason: l.Reason}
}
