package hub

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
)

// load reads the store: hosts, keys, open leases, and all results, from which it computes again
// what is usual on each path. It tells nothing of what it finds.
func (h *Hub) load(ctx context.Context) error {
	if err := h.follow(ctx); err != nil {
		return err
	}
	for look := range h.paths.Doubts {
		if _, ok := h.doubts[look]; !ok {
			delete(h.paths.Doubts, look) // its confirmation was never planned
		}
	}
	h.joined = false // nothing is planned yet that they could take part in
	return nil
}

// follow takes what was stored since the last call, by this hub or another one. All hubs take the
// same in the same order, and so know the same.
func (h *Hub) follow(ctx context.Context) error {
	var raised []*fleet.Lease
	for more := true; more; {
		n, err := h.store.News(ctx, h.mark)
		if err != nil {
			return err
		}
		for _, k := range n.Keys {
			h.keys[k.Hash] = k
		}
		if n.Setup != nil {
			h.setup, h.joined = *n.Setup, true
		}
		for i := range n.Hosts {
			h.learn(&n.Hosts[i])
		}
		for i := range n.Leases {
			l := &n.Leases[i]
			if l.State == fleet.Planned {
				h.add(l)
			} else if h.result(l) {
				raised = append(raised, l)
			}
		}
		h.mark, more = n.To, n.More
	}
	for _, l := range raised {
		if err := h.planConfirm(ctx, l); err != nil {
			return err // the next look raises it again
		}
	}
	return nil
}

// learn takes a host as it is stored.
func (h *Hub) learn(one *fleet.Host) {
	now := h.now()
	if now >= one.Drained {
		one.Drained = 0
	}
	mine := h.hosts[one.ID]
	if mine == nil {
		h.hosts[one.ID], h.joined = one, true
		h.silent[one.ID] = now-one.Seen >= fleet.SilentAfter
		return
	}
	if one.Drained != mine.Drained {
		h.joined = h.joined || one.Drained == 0
		h.wake()
	}
	if h.silent[one.ID] && now-one.Seen < fleet.SilentAfter {
		h.silent[one.ID], h.joined = false, true
	}
	if h.dirty[one.ID] && mine.Seen >= one.Seen { // this hub has heard of it since
		mine.Removed, mine.Drained = one.Removed, one.Drained
		return
	}
	delete(h.dirty, one.ID)
	*mine = *one
}

// result takes a result, tells people of a change if this hub has stored it, and then reports
// whether it raises a suspicion.
func (h *Hub) result(l *fleet.Lease) bool {
	doubt, told := h.take(l)
	mine := h.mine[l.ID]
	delete(h.mine, l.ID)
	if mine && told != nil {
		change := h.changes[len(h.changes)-1]
		h.alert(fleet.Alert{Kind: map[bool]string{true: "worse", false: "better"}[told.Worse], Subject: change.Near + " - " + change.Far, Text: strings.Join(change.Lines(), "\n"), Change: &change})
	}
	return mine && doubt != nil
}

// add adds an open lease.
func (h *Hub) add(l *fleet.Lease) {
	h.open[l.ID] = l
	for _, u := range append([]fleet.Use{{Resource: l.Near}, {Resource: l.Far}}, l.Uses...) {
		h.taken[u.Resource] = append(h.taken[u.Resource], l.Span)
	}
	way := l.Way()
	h.next[way] = max(h.next[way], l.From)
	if d, ok := h.paths.Doubts[l.Look]; ok && l.Kind == fleet.Confirm {
		h.doubts[l.Look] = order{d.Stream, d.Suspicion}
	}
	h.wake()
}

// take takes a result into the state of its path, and returns the suspicion or the change that
// it shows.
func (h *Hub) take(l *fleet.Lease) (*series.Doubt, *series.Told) {
	way := l.Way()
	delete(h.open, l.ID)
	delete(h.doubts, l.Look)
	h.tried[way] = l.State != fleet.Lost || h.last[way] > 0 // else its first look is still to come
	if h.recent = append(h.recent, *l); len(h.recent) > 20*shown {
		h.recent = slices.Delete(h.recent, 0, 10*shown)
	}
	if l.Kind == fleet.Visit {
		h.problem[way] = l.Reason
		delete(h.blocked, way)
		switch l.State {
		case fleet.Done:
			h.last[way], h.problem[way] = max(h.last[way], l.From), ""
		case fleet.Unreachable:
			h.blocked[way] = l.Near
		case fleet.Planned, fleet.Skipped, fleet.Failed, fleet.Lost:
		}
	}
	if print := l.Print; len(print) > 0 {
		if l.Near > l.Far {
			print = print.Turned()
		}
		if all := h.prints[way]; len(all) == 0 || len(all[len(all)-1].print.Differences(print)) > 0 {
			h.prints[way] = append(all, printed{l.ID, print})
		}
	}
	doubt, told := h.paths.Take(l)
	if told != nil {
		h.changes = append(h.changes, h.change(way, told))
	}
	return doubt, told
}

// change returns a change with what changed on the hosts meanwhile.
func (h *Hub) change(way fleet.Way, t *series.Told) fleet.Change {
	c := fleet.Change{Near: h.name(way.Low), Far: h.name(way.High), Report: series.ReportOf(h.name(way.High), t)}
	c.Text = c.Near + ": " + c.Text
	before, _ := strconv.ParseInt(t.Before.ID, 10, 64) // the hub wrote it
	var was fingerprint.Print
	for _, p := range h.prints[way] {
		if p.look <= before {
			was = p.print
		}
	}
	if all := h.prints[way]; was != nil {
		changed := was.Differences(all[len(all)-1].print)
		fingerprint.Name(changed, model.Names{Near: c.Near, Far: c.Far})
		c.Report = c.With(changed)
	}
	return c
}

func (h *Hub) name(id int64) string {
	if one := h.hosts[id]; one != nil {
		return one.Name
	}
	return fmt.Sprintf("host %d", id)
}
