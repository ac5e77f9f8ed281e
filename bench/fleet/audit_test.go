//go:build linux

package main

import (
	"testing"
	"time"

	"linerate/internal/core/fleet"
	"linerate/internal/must"
)

// TestAudit: the audit finds a host in two runs, and results that are lost or invented; a killed
// host is in no run any more.
func TestAudit(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	names := map[int64]*process{}
	for id := range int64(5) {
		names[id] = &process{name: "h", log: "/dev/null"}
	}
	names[3].downs = []span{{from: at(5), killed: true}}
	sessions := []entry{{Lease: 1, Near: 1, Far: 2, Began: at(0)}, {Lease: 2, Near: 3, Far: 4, Began: at(0)}, {Lease: 3, Near: 4, Far: 1, Began: at(14)}}
	lease := func(id int64, s fleet.LeaseState) fleet.Lease {
		return fleet.Lease{ID: id, Near: 1, Far: 2, Span: fleet.Span{From: 1000, Until: 1025}, State: s}
	}
	a := audited{since: at(100), leases: map[int64]fleet.Lease{1: lease(1, fleet.Done), 2: lease(2, fleet.Lost)}, ended: map[int64]entry{1: {Lease: 1, Near: 1, Far: 2, Began: at(0), Ended: at(14)}}}
	must.Len(t, a.twice(sessions, names), 0, "one after the other")
	names[3].downs, names[4].downs = nil, []span{{from: at(5)}} // a far host that hangs is still in it
	must.Len(t, a.twice(sessions, names), 1, "host 4 in two")
	names[4].downs[0].killed = true
	must.Len(t, a.twice(sessions, names), 0, "after it was killed")
	names[4].downs = nil // then its session went on
	must.Len(t, a.twice(sessions, names), 1, "host 4 in two")
	must.Len(t, a.twice(append(sessions, entry{Lease: 4, Near: 0, Far: 2, Began: at(13)}), names), 2, "and host 2")

	a.judge(names)
	must.OK(t, a.err())
	a.leases[1], a.leases[2], a.leases[3] = lease(1, fleet.Lost), lease(2, fleet.Done), lease(3, fleet.Planned)
	a.judge(names)
	must.True(t, len(a.lost) == 1 && len(a.invented) == 1 && a.open == 1 && a.err() != nil, "%+v", a)
	names[1].downs = []span{{from: at(15), killed: true}}
	a.judge(names)
	must.True(t, len(a.lost) == 0 && a.spoiled == 1, "%+v", a)
}
