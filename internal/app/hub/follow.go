package hub

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
)

// load reads the store: hosts, keys, open leases, and all results, from which it computes again
// what is usual on each path. It tells nothing of what it finds.
func (h *Hub) load(ctx context.Context) error {
	if err := h.follow(ctx); err != nil {
		return err
	}
	h.joined = false // nothing is planned yet that they could take part in
	return nil
}

// follow takes what was stored since the last call, by this hub or another one. All hubs take the
// same in the same order, and so know the same.
func (h *Hub) follow(ctx context.Context) error {
	read, spoken := 0, time.Now()
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
		for _, a := range n.Alerts {
			// One without a number is in the database if only the answer to its commit was lost.
			i := slices.IndexFunc(h.raised, func(b fleet.Alert) bool {
				return a.ID == b.ID || b.ID == 0 && a.At.Equal(b.At) && a.Text == b.Text
			})
			if i < 0 {
				a.At = a.At.In(h.paths.Zone)
				h.tell(a)
			} else {
				h.raised[i].ID = a.ID
			}
		}
		for i := range n.Hosts {
			h.learn(&n.Hosts[i])
		}
		for _, one := range n.Halves {
			h.halves[one.Hash] = &half{one.Print}
		}
		for i := range n.Leases {
			l := &n.Leases[i]
			if l.State == fleet.Planned {
				h.add(l)
			} else {
				h.result(l)
			}
		}
		h.mark, more, read = n.To, n.More, read+len(n.Leases)
		if more && time.Since(spoken) > 5*time.Second { // at the start of a large fleet's hub
			spoken = time.Now()
			h.say(fmt.Sprintf("reads what is stored: %d results so far", read))
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
		h.wake(one.ID)
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

// result takes a result, and tells people of a change if this hub has stored it.
func (h *Hub) result(l *fleet.Lease) {
	changed := h.take(l)
	if changed && h.mine[l.ID] {
		c := h.changes[len(h.changes)-1]
		subject := c.Near
		if c.Far != "" {
			subject += " - " + c.Far
		}
		h.alert(fleet.Alert{Kind: map[bool]string{true: "worse", false: "better"}[c.Worse], Subject: subject, Text: strings.Join(c.Lines(), "\n"), Change: &c})
	}
	delete(h.mine, l.ID)
}

// add adds an open lease.
func (h *Hub) add(l *fleet.Lease) {
	if h.orders[l.Near] == nil {
		h.orders[l.Near] = map[int64]*fleet.Lease{}
	}
	h.orders[l.Near][l.ID] = l
	for _, u := range append([]fleet.Use{{Resource: l.Near}, {Resource: l.Far}}, l.Uses...) {
		h.taken[u.Resource] = append(h.taken[u.Resource], l.Span)
	}
	p := h.pair(l.Way())
	p.next = max(p.next, l.From)
	h.wake(l.Near)
}

// take takes a result into the state of its path, and reports whether it confirms a change.
func (h *Hub) take(l *fleet.Lease) bool {
	p := h.pair(l.Way())
	delete(h.orders[l.Near], l.ID)
	p.tried = l.State != fleet.Lost || p.last > 0 // else its first look is still to come
	h.keep(*l)
	if l.Kind == fleet.Visit {
		p.problem = &problem{text: l.Reason}
		switch l.State {
		case fleet.Done:
			p.last, p.problem = max(p.last, l.From), nil
		case fleet.Unreachable:
			p.problem.blocked = l.Near
		case fleet.Planned, fleet.Skipped, fleet.Failed, fleet.Lost:
		}
	}
	if l.Kept != nil {
		h.printed(p, l.ID, l.Kept)
	}
	o := h.paths.Take(l)
	p.now = h.paths.Present(l.Way())
	if o != nil {
		h.changes = append(h.changes, h.change(o))
	}
	return o != nil
}

// keep keeps what became of a lease for an hour, and that of the last ones.
func (h *Hub) keep(l fleet.Lease) {
	l.Runs, l.Kept = nil, nil
	h.recent = append(h.recent, l)
	old, until := 0, h.now()-hour
	for old < len(h.recent)-20*shown && h.recent[old].Reported <= until {
		old++
	}
	if old > 10*shown {
		h.recent = slices.Delete(h.recent, 0, old)
	}
}

// change returns a change with what changed on the hosts meanwhile.
func (h *Hub) change(o *fleet.Outcome) fleet.Change {
	before := fleet.LeaseOf(o.Before)
	if o.Host == 0 {
		c := fleet.Change{Near: h.name(o.Way.Low), Far: h.name(o.Way.High), Report: series.ReportOf(h.name(o.Way.High), o.StreamChange)}
		c.Text = c.Near + ": " + c.Text
		if changed, known := h.meanwhile(o.Way, before); known {
			c.Report = c.With(changed)
		}
		return c
	}
	name := h.name(o.Host)
	c := fleet.Change{Near: name, Report: series.ReportOf(name, o.StreamChange)}
	with := lists.Each(o.With, func(w fleet.With) string { return series.Instead(o.Metric, w.Now, w.Was) + " with " + h.name(w.Host) })
	c.Text = o.Headline(name) + ", whichever host measures with it: " + strings.Join(with, ", ")
	if changed, known := h.changedOn(o.Host, before); known {
		c.Cohorts = h.cohorts(o, changed)
		c.Report = c.With(changed)
	}
	return c
}

// meanwhile returns what changed on the hosts of a path after a look, and whether that is known.
func (h *Hub) meanwhile(way fleet.Way, before int64) ([]fingerprint.Change, bool) {
	was, now := h.conditions(way, before)
	return was.Differences(now), was != nil
}

// conditions returns the conditions of a path at a look and now, nil if it has none so early.
func (h *Hub) conditions(way fleet.Way, at int64) (was, now fingerprint.Print) {
	for _, p := range h.between(way).prints {
		if now = p.print(); p.look <= at {
			was = now
		}
	}
	return was, now
}

// changedOn returns what changed on a host after a look, as its looks with all others show it: what
// one of them knew before is no change since. The host is near.
func (h *Hub) changedOn(host, before int64) (changed []fingerprint.Change, known bool) {
	old := map[fingerprint.Change]bool{}
	found := map[fingerprint.Change]bool{}
	for way := range h.pairs.All() {
		if way.Low != host && way.High != host {
			continue
		}
		was, now := h.conditions(way, before)
		if was == nil {
			continue
		}
		if way.High == host {
			was, now = was.Turned(), now.Turned()
		}
		known = true
		for key, text := range was {
			old[fingerprint.Change{Key: key, Now: text}] = true
		}
		for _, c := range was.Differences(now) {
			if strings.HasPrefix(string(c.Key), string(fingerprint.Of(model.Near, ""))) {
				found[c] = true
			}
		}
	}
	for c := range found {
		if !old[fingerprint.Change{Key: c.Key, Now: c.Now}] {
			changed = append(changed, c)
		}
	}
	slices.SortFunc(changed, func(a, b fingerprint.Change) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Now, b.Now)) })
	return changed, known
}

// cohorts compares the hosts on which each of some conditions has changed as on a near end with the
// other hosts.
func (h *Hub) cohorts(o *fleet.Outcome, changes []fingerprint.Change) []fleet.Cohort {
	with := map[fingerprint.Change]map[int64]bool{}
	for _, c := range changes {
		with[c] = map[int64]bool{}
	}
	for way, p := range h.pairs.All() {
		for i := 1; i < len(p.prints); i++ {
			for _, end := range []struct {
				host     int64
				was, now fingerprint.Print
			}{{way.Low, p.prints[i-1].low.Print, p.prints[i].low.Print}, {way.High, p.prints[i-1].high.Print, p.prints[i].high.Print}} {
				for _, c := range end.was.Differences(end.now) {
					if of := with[c]; of != nil {
						of[end.host] = true
					}
				}
			}
		}
	}
	return lists.Each(changes, func(c fingerprint.Change) fleet.Cohort { return o.Cohort(c, len(changes), with[c]) })
}

func (h *Hub) name(id int64) string {
	if one := h.hosts[id]; one != nil {
		return one.Name
	}
	return fmt.Sprintf("host %d", id)
}
