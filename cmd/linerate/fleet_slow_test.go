//go:build slow && linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"linerate/internal/core/fleet"
	"linerate/internal/must"
	"linerate/internal/store/postgres/postgrestest"
	"linerate/internal/store/sqlite"
)

// TestFleet: three hosts measure with each other for a hub. Twice something is killed while it is
// needed: the near host of a look, and the hub. Then the hub's disk is full. What the hosts say
// they measured is stored, each look once.
func TestFleet(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir, r := isolated(t, file(t, "testdata", "fleet.sh"))
	out := filepath.Join(dir, "out")
	r.succeeds(t)
	has(t, "with a full disk", file(t, out, "full"), "3 hosts, 0 silent", "  hub     nothing can be stored; agents keep their results: ", ": no space left")
	must.Contain(t, file(t, out, "spool"), `"state":"done"`, "results on the hosts then")
	has(t, "views", file(t, out, "views"), "== matrix\n  Mbit/s    to h1  to h2  to h3\n", "round trip", "0 %", "  planned", "3 hosts, 3 pairs: up to 60 looks of each host an hour, each 25 s long, 42 % of its time; each pair comes up about every 3 min", "measures up to 100 % of the time, at up to 80 Mbit/s", "at up to 50 Mbit/s", "\n  up: at most 1 of 2 pairs at a time\n")
	must.Equal(t, file(t, out, "applied"), "applied: 1 group, 1 shared link\nh1: 1 host\nup: at most 1 of 2 pairs at a time\n")
	has(t, "operator", file(t, out, "operator"), "h1 measures nothing until ", "h1: it was drained", "h2 and h3 measure ", "this link may only look", "h1 measures again", "linerate agent --hub linerate://", "h3 is removed", "2 hosts, 0 silent")
	has(t, "metrics", file(t, out, "metrics"), "application/openmetrics-text", "linerate_hub_stores 1\n", `linerate_fleet_hosts{state="present"} 3`, `linerate_fleet_host_goodput_bytes_per_second{host="h2",direction="receives"} `, "# EOF")
	for _, name := range regexp.MustCompile(`linerate_\w+`).FindAllString(file(t, "..", "..", "deploy", "grafana", "linerate.json"), -1) {
		must.Contain(t, file(t, out, "metrics"), "\n"+name, "what the dashboard asks for")
	}
	must.Do(t, validate("linerate/fleet/v1", file(t, out, "json")))
	db := must.Get(sqlite.OpenFleet(t.Context(), filepath.Join(out, "hub.db")))(t)
	ended := map[string]int{}
	for _, l := range must.Get(db.News(t.Context(), fleet.Mark{}))(t).Leases {
		ended[string(l.State)+" "+l.Reason]++
		for _, run := range l.Runs {
			must.True(t, run.Goodput == nil || *run.Goodput < 85e6, "faster than its owners allow: %v", run.Goodput)
		}
	}
	must.Do(t, db.Close())
	done := len(regexp.MustCompile(`(?m)^look with h\d: .*runs$`).FindAllString(file(t, out, "h1")+file(t, out, "h2")+file(t, out, "h3"), -1))
	must.True(t, ended["done "] == done && done >= 3 && ended["lost the agent ended while it measured"] == 1, "%d looks were measured, and stored are %v", done, ended)
	must.True(t, decode[fleet.Status](t, file(t, out, "json")).Hour[fleet.Done] <= done, "the hub counts more than the %d looks that were measured", done)
	must.Equal(t, strings.Count(file(t, out, "hub"), "has joined"), 3, "hosts that joined")
}

// TestSeveralHubs: two hubs share a PostgreSQL database, which one of them leaves while it plans.
// A host joins at the other one with an invitation for one host.
func TestSeveralHubs(t *testing.T) {
	t.Parallel()
	needRoot(t)
	server, err := postgrestest.Start(t.Context())
	must.SkipIf(t, errors.Is(err, postgrestest.ErrMissing), "%v", err)
	must.Do(t, err)
	defer func() { must.OK(t, server.Stop()) }()
	must.Do(t, os.Chmod(server.Dir, 0o755)) // hubs give up root
	dir, r := isolated(t, file(t, "testdata", "hubs.sh"), "DB="+must.Get(server.Database(t.Context()))(t))
	out := filepath.Join(dir, "out")
	r.succeeds(t)
	must.Contain(t, file(t, out, "init"), "has the key and the links of 10.77.0.4,10.77.0.5")
	must.Contain(t, file(t, out, "other"), "know their hub by another key")
	must.Contain(t, file(t, out, "invite"), "1 host may join with it until ")
	must.Contain(t, file(t, out, "late"), "the hub refuses")
	s := decode[fleet.Status](t, file(t, out, "json"))
	must.True(t, len(s.Hosts) == 3 && len(s.Faults) == 0 && s.Hour[fleet.Done] >= 3, "%+v", s)
	must.Equal(t, strings.Count(file(t, out, "hub4")+file(t, out, "hub5"), "has joined"), 3, "hosts that joined, as both hubs tell")
}
