//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"linerate/internal/core/fleet"
	"linerate/internal/must"
)

// TestAudit: the audit finds a host in two runs, and results that are lost or invented; a killed
// host is in no run any more.
func TestAudit(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	lease := func(id int64, s fleet.LeaseState) fleet.Lease {
		return fleet.Lease{ID: id, Near: 1, Far: 2, Span: fleet.Span{From: 1000, Until: 1025}, State: s}
	}
	h := &process{name: "h", log: "/dev/null"}
	a := audited{since: at(100), leases: map[int64]fleet.Lease{1: lease(1, fleet.Done), 2: lease(2, fleet.Lost)}, ended: map[int64]entry{1: {Lease: 1, Began: at(0), Ended: at(14)}}}
	twice := func(all ...span) int { return len(a.twice(1, h, all)) }
	must.Equal(t, twice(span{1, at(0), at(14)}, span{2, at(14), at(27)}), 0, "one after the other")
	must.Equal(t, twice(span{2, at(13), at(28)}, span{1, at(0), at(14)}), 1, "one before the other has ended")
	must.Equal(t, twice(span{1, at(0), time.Time{}}, span{2, at(26), at(28)}), 1, "the first without an end")
	must.Equal(t, twice(span{1, at(0), at(60)}, span{2, at(27), at(28)}), 0, "after the window of a host that hung")
	h.kills = []time.Time{at(5)}
	must.Equal(t, twice(span{1, at(0), time.Time{}}, span{2, at(6), at(28)}), 0, "after it was killed")

	path := filepath.Join(t.TempDir(), "log")
	must.Do(t, os.WriteFile(path, []byte(`{"time":"2026-01-01T00:00:01Z","event":"session-begin","key":"fleet:7"}
{"time":"2026-01-01T00:00:02Z","event":"run-begin","key":"fleet:7"}
{"time":"2026-01-01T00:00:03Z","event":"session-end","key":"fleet:7"}
{"time":"2026-01-01T00:00:04Z","event":"session-begin","key":"fleet:8"}
{"time":"2026`), 0o600))
	all := must.Get(logged(path, visit))(t)
	must.True(t, len(all) == 2 && all[0].lease == 7 && all[0].to.Sub(all[0].from) == 2*time.Second && all[1].to.IsZero(), "%+v", all)

	names := map[int64]*process{1: h}
	a.judge(names)
	must.OK(t, a.err())
	a.leases[1], a.leases[2], a.leases[3] = lease(1, fleet.Lost), lease(2, fleet.Done), lease(3, fleet.Planned)
	a.judge(names)
	must.True(t, len(a.lost) == 1 && len(a.invented) == 1 && a.open == 1 && a.err() != nil, "%+v", a)
	h.kills = []time.Time{at(15)}
	a.judge(names)
	must.True(t, len(a.lost) == 0 && a.spoiled == 1, "%+v", a)
}
