package hub

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/matching"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/lists"
)

// work does what is due, until ctx ends.
func (h *Hub) work(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		h.mu.Lock()
		err := h.due(ctx)
		if (err == nil) != (h.fault == nil) && ctx.Err() == nil {
			what := "results and plans are stored again"
			if err != nil {
				what = "nothing can be stored; agents keep their results: " + err.Error()
			}
			h.alert(fleet.Alert{Kind: "hub", Subject: "hub", Text: what})
		}
		h.fault = err
		h.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// due does what is due now. It holds h.mu; without its store a hub still answers from memory
// once this returns.
func (h *Hub) due(ctx context.Context) error {
	if err := h.follow(ctx); err != nil {
		return err
	}
	now := h.now()
	if err := h.refresh(ctx, now); err != nil {
		return err
	}
	if err := h.putAlerts(ctx); err != nil {
		return err
	}
	leads, err := h.lead(ctx, now)
	h.watch(now, leads)
	if err != nil || !leads {
		return cmp.Or(err, h.refused)
	}
	var lost []fleet.Lease
	for l := range h.open() {
		if l.Until+grace < now {
			r := *l
			r.State, r.Reason = fleet.Lost, "no result came from "+h.name(l.Near)+", which may have stopped; the pair is measured again in turn"
			lost = append(lost, r)
		}
	}
	if len(lost) > 0 {
		slices.SortFunc(lost, func(a, b fleet.Lease) int { return cmp.Compare(a.ID, b.ID) })
		if _, err := h.store.Finish(ctx, 0, now, lost); err != nil {
			return err
		}
		if err := h.follow(ctx); err != nil {
			return err
		}
	}
	if now-h.swept >= 24*3600 {
		if err := h.store.Forget(ctx, now-kept); err != nil {
			return err
		}
		h.swept = now
	}
	if err := h.planConfirms(ctx, now); err != nil {
		return err
	}
	fills := now-h.filled >= int64(len(h.hosts))/filling
	if err := h.planRounds(ctx, now, fills); err != nil || !fills {
		return cmp.Or(err, h.refused)
	}
	h.filled = now
	return cmp.Or(h.planFirst(ctx, now), h.refused)
}

// lead reports whether this hub is the one that plans. If two believe it for a moment, the store
// still refuses two windows for one host.
func (h *Hub) lead(ctx context.Context, now int64) (bool, error) {
	if h.leads-now > leading/2 {
		return true, nil
	}
	led := now < h.leads
	ok, err := h.store.Lead(ctx, h.id, now, now+leading)
	if err != nil || !ok {
		h.leads = 0
		return false, err
	}
	if h.leads = now + leading; led {
		return true, nil
	}
	h.planned, h.windows, h.joined = 0, nil, false
	for l := range h.open() {
		h.pair(l.Way()).tried = true
		if l.From < now+2*horizon && l.Kind == fleet.Visit { // else the clock was wrong then
			h.planned = max(h.planned, l.From)
		}
	}
	h.planned = max(h.planned/h.round*h.round+h.round, now/h.round*h.round+h.round)
	return true, nil
}

// refresh stores when hosts were seen, and asks the database for its time.
func (h *Hub) refresh(ctx context.Context, now int64) error {
	if now-h.stored >= noted {
		if err := h.putHosts(ctx); err != nil {
			return err
		}
		h.stored = now
	}
	if now-h.asked < noted {
		return nil
	}
	h.asked = now
	at, err := h.store.Clock(ctx)
	if err != nil {
		return err
	}
	// All hubs follow the drift of the database's clock, and ignore that it is set.
	if d := at.Sub(h.clock()); d.Abs() < drift {
		h.wall = h.wall.Add(d)
	}
	return nil
}

// watch notes which hosts have become silent, and whose drain has ended; the hub that plans tells.
func (h *Hub) watch(now int64, tells bool) {
	for id, one := range h.hosts {
		silent := now-one.Seen >= fleet.SilentAfter
		if silent && !h.silent[id] && !one.Removed && tells {
			h.alert(fleet.Alert{Kind: "silent", Subject: one.Name, Text: fmt.Sprintf("%s has not been heard of since %s", one.Name, h.at(one.Seen).Format("15:04:05"))})
		}
		h.silent[id] = h.silent[id] || silent
		if one.Drained > 0 && now >= one.Drained {
			one.Drained, h.joined = 0, true
			h.wake(id)
			if tells {
				h.alert(fleet.Alert{Kind: "operator", Subject: one.Name, Text: one.Name + resumes})
			}
		}
	}
}

func (h *Hub) putHosts(ctx context.Context) error {
	var all []*fleet.Host
	for id := range h.dirty {
		all = append(all, h.hosts[id])
	}
	if len(all) == 0 {
		return nil
	}
	err := h.store.PutHosts(ctx, all...)
	if err == nil {
		clear(h.dirty)
	}
	return err
}

func (h *Hub) at(s int64) time.Time { return time.Unix(s, 0).In(h.paths.Zone) }

// alert tells people of an event.
func (h *Hub) alert(a fleet.Alert) {
	a.At = h.at(h.now())
	h.tell(a)
	select {
	case h.alerts <- a:
	default: // people have a hundred to read already
	}
}

// tell adds an alert to those that people see.
func (h *Hub) tell(a fleet.Alert) {
	h.raised = append(h.raised, a)
	slices.SortStableFunc(h.raised, func(a, b fleet.Alert) int { return a.At.Compare(b.At) })
	h.raised = h.raised[max(0, len(h.raised)-2*shown):]
}

// putAlerts stores the alerts of this hub, so that all hubs know them.
func (h *Hub) putAlerts(ctx context.Context) error {
	for i := range h.raised {
		if a := &h.raised[i]; a.ID == 0 {
			if err := h.store.PutAlert(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// members returns the hosts that may be planned for, with their windows since an hour ago, and
// what their paths share.
func (h *Hub) members(now int64) (ids []int64, f matching.Fleet) {
	for id, one := range h.hosts {
		if one.Measures(now) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, h.fleetOf(now, ids...)
}

// fleetOf returns hosts, whose places are those of their numbers, with what their paths share.
func (h *Hub) fleetOf(now int64, ids ...int64) (f matching.Fleet) {
	taken := func(resource int64) []fleet.Span {
		h.taken[resource] = slices.DeleteFunc(h.taken[resource], func(s fleet.Span) bool { return s.Until < now-3600 })
		return slices.Clone(h.taken[resource])
	}
	for _, id := range ids {
		f.Members = append(f.Members, matching.Member{Limits: h.setup.Limits(h.hosts[id]), Taken: taken(id)})
	}
	for _, s := range h.setup.Shared {
		one := matching.Shared{AtOnce: s.AtOnce, Taken: taken(s.Use().Resource)}
		for _, id := range ids {
			a, b := s.Ends(h.hosts[id].Name)
			one.One, one.Other = append(one.One, a), append(one.Other, b)
		}
		f.Shared = append(f.Shared, one)
	}
	return f
}

// lease returns the lease of two hosts. By a coin one of them is near, which connects to the
// other one; after an attempt that could not connect it is the other one.
func (h *Hub) lease(a, b int64, w fleet.Span, rng *rand.Rand) fleet.Lease {
	if rng.IntN(2) == 0 {
		a, b = b, a
	}
	l := fleet.Lease{Kind: fleet.Visit, Near: a, Far: b, Span: w, ProbeOnly: h.setup.Limits(h.hosts[a]).ProbeOnly || h.setup.Limits(h.hosts[b]).ProbeOnly}
	if p := h.between(l.Way()).problem; p != nil && p.blocked == a {
		l.Near, l.Far = b, a
	}
	return l
}

// planRounds plans the rounds up to the horizon, each at a random time of its part of the hour. With
// fills, a host that has come takes part in those that leave another host free.
func (h *Hub) planRounds(ctx context.Context, now int64, fills bool) error {
	h.windows = slices.DeleteFunc(h.windows, func(w fleet.Span) bool { return w.From < now+soon })
	if h.joined && fills {
		for _, w := range h.windows {
			if err := h.planRound(ctx, w, now); err != nil {
				return err
			}
		}
		h.joined = false
	}
	ahead := int64(horizon)
	for _, one := range h.hosts {
		if now-one.Joined < gathering { // others may follow, for which planned rounds have no place
			ahead = h.round
		}
	}
	if len(h.hosts) < 2 {
		ahead = h.round
	}
	for h.planned < now+ahead {
		at := max(h.planned, now+soon) + rand.Int64N(h.round-window)
		w := fleet.Span{From: at, Until: at + window}
		if err := h.planRound(ctx, w, now); err != nil {
			return err
		}
		h.windows = append(h.windows, w)
		h.planned += h.round
	}
	return nil
}

// planRound pairs the hosts that are free in a window.
func (h *Hub) planRound(ctx context.Context, w fleet.Span, now int64) error {
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	ids, f := h.members(now)
	pairs := f.Round(w, func(a, b int) int64 { return h.latest(ids[a], ids[b]) }, rng)
	return h.plan(ctx, lists.Each(pairs, func(p fleet.Pair) fleet.Lease { return h.lease(ids[p.Near], ids[p.Far], w, rng) }))
}

// latest returns when two hosts measured, or are to measure, with each other at last.
func (h *Hub) latest(a, b int64) int64 {
	p := h.between(fleet.Way{Low: min(a, b), High: max(a, b)})
	return max(p.last, p.next)
}

// planFirst plans a look as soon as possible for each pair that was never looked at, as far as
// the limits of their owners leave time within the present part of the hour.
func (h *Hub) planFirst(ctx context.Context, now int64) error {
	ids, f := h.members(now)
	untried := func(a, b int) bool {
		return !h.between(fleet.Way{Low: min(ids[a], ids[b]), High: max(ids[a], ids[b])}).tried
	}
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	leases := lists.Each(f.Firsts(untried, now+soon, window, h.round), func(w matching.Window) fleet.Lease {
		return h.lease(ids[w.Near], ids[w.Far], w.Span, rng)
	})
	if err := h.plan(ctx, leases); err != nil {
		return err
	}
	for _, l := range leases {
		h.pair(l.Way()).tried = true
	}
	return nil
}

// planConfirms plans the runs that decide about suspicions, those about a host first: the longer
// ones about a path would use up the time that the owners allow. Without time for them a later look
// raises them again.
func (h *Hub) planConfirms(ctx context.Context, now int64) error {
	asked := map[int64]bool{}
	for l := range h.open() {
		asked[l.Look] = true
	}
	doubts := h.paths.Doubts
	order := slices.SortedFunc(maps.Keys(doubts), func(a, b int64) int {
		return cmp.Or(cmp.Compare(doubts[a].Most(), doubts[b].Most()), cmp.Compare(a, b))
	})
	for _, look := range order {
		d := doubts[look]
		low, high := h.hosts[d.Way.Low], h.hosts[d.Way.High]
		if asked[look] || now > d.Until() || low == nil || high == nil || !low.Measures(now) || !high.Measures(now) {
			continue
		}
		f := h.fleetOf(now, low.ID, high.ID)
		w, err := f.Earliest(0, 1, now+soon, int64(settle*d.Most()/series.MostRuns), d.Until()-now)
		if err != nil {
			continue
		}
		l := h.lease(low.ID, high.ID, w, rand.New(rand.NewPCG(rand.Uint64(), 0)))
		l.Kind, l.Look = fleet.Confirm, look
		if err := h.plan(ctx, []fleet.Lease{l}); err != nil {
			return err
		}
	}
	return nil
}

// plan stores leases.
func (h *Hub) plan(ctx context.Context, leases []fleet.Lease) error {
	if len(leases) == 0 {
		return nil
	}
	for i := range leases {
		leases[i].Uses = h.setup.Uses(h.name(leases[i].Near), h.name(leases[i].Far))
	}
	if _, err := h.store.Plan(ctx, leases); err != nil {
		return err
	}
	return h.follow(ctx)
}

// wake has an agent that waits for news look for it.
func (h *Hub) wake(host int64) {
	if news := h.news[host]; news != nil {
		close(news)
		delete(h.news, host)
	}
}

// waits returns what is closed when there may be news for a host.
func (h *Hub) waits(host int64) <-chan struct{} {
	if h.news[host] == nil {
		h.news[host] = make(chan struct{})
	}
	return h.news[host]
}
