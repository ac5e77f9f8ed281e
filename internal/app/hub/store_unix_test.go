//go:build unix

package hub

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/fleet"
	"linerate/internal/must"
	"linerate/internal/store/postgres"
	"linerate/internal/store/postgres/postgrestest"
	"linerate/internal/store/sqlite"
)

func TestStoreSQLite(t *testing.T) {
	st := must.Get(sqlite.OpenFleet(t.Context(), filepath.Join(t.TempDir(), "hub.db")))(t)
	stores(t, st, st)
	must.Do(t, st.Close())
}

// TestStorePostgreSQL: whatever writes them, the server refuses two windows of one host that
// overlap.
func TestStorePostgreSQL(t *testing.T) {
	server, err := postgrestest.Start(t.Context())
	must.SkipIf(t, errors.Is(err, postgrestest.ErrMissing), "%v", err)
	must.Do(t, err)
	defer func() { must.OK(t, server.Stop()) }()
	address := must.Get(server.Database(t.Context()))(t)
	var two [2]*postgres.Fleet
	for i := range two {
		two[i] = must.Get(postgres.OpenFleet(t.Context(), address))(t)
		defer func() { must.OK(t, two[i].Close()) }()
	}
	stores(t, two[0], two[1])
	name, _, _ := strings.Cut(strings.TrimPrefix(address, "postgres://postgres@/"), "?")
	hold := func(host, from, until int) error {
		return server.Exec(t.Context(), name, fmt.Sprintf("INSERT INTO linerate_fleet.fleet_holds SELECT %d, %d, %d, max(id) FROM linerate_fleet.fleet_leases", host, from, until))
	}
	must.Do(t, hold(7, 100, 125))
	must.Do(t, errors.Join(hold(7, 125, 150), hold(8, 100, 125), hold(6, 100, 4294967295)))
	for _, span := range [][2]int{{124, 130}, {90, 101}, {110, 111}, {50, 200}} {
		must.Fail(t, hold(7, span[0], span[1]), "%v of host 7", span)
	}
}

// stores checks what hubs need of their store, which is open twice if it can be.
func stores(t *testing.T, first, second Store) {
	t.Helper()
	ctx, beginning := t.Context(), fleet.Mark{}
	at := must.Get(first.Clock(ctx))(t)
	must.True(t, time.Since(at).Abs() < time.Minute, "the clock says %v", at)
	now := at.Unix()

	must.Equal(t, must.Get(first.Claim(ctx, "pin", false))(t), "pin")
	must.Equal(t, must.Get(second.Claim(ctx, "other", false))(t), "pin", "whose fleet it is")
	must.Equal(t, must.Get(second.Claim(ctx, "other", true))(t), "other")

	for i, c := range []struct {
		of         Store
		hub        string
		now, until int64
		leads      bool
	}{
		{first, "one", 100, 115, true}, {second, "two", 101, 116, false}, {first, "one", 110, 125, true}, {second, "two", 125, 140, false},
		{second, "two", 126, 141, true}, {first, "one", 130, 145, false}, {second, "two", 131, 0, false}, {first, "one", 131, 146, true},
	} {
		must.Equal(t, must.Get(c.of.Lead(ctx, c.hub, c.now, c.until))(t), c.leads, "step %d: hub %s plans", i, c.hub)
	}

	key := fleet.Key{Hash: "k", Right: fleet.Joins, Expires: now + 100, Left: 2}
	must.Do(t, errors.Join(first.PutKey(ctx, key), second.PutKey(ctx, fleet.Key{Hash: "k", Right: fleet.Operates, Expires: fleet.Endless})))
	must.Do(t, first.PutKey(ctx, fleet.Key{Hash: "v", Right: fleet.Views, Expires: fleet.Endless, Left: fleet.Endless}))
	host := func(name string) *fleet.Host { return &fleet.Host{Name: name, Pin: "pin of " + name, Boot: "b\x00"} }
	a, b, c := host("a"), host("b"), host("c")
	must.Do(t, first.Join(ctx, a, "k", now))
	must.Fail(t, first.Join(ctx, host("a"), "k", now), "a host of that name is there; that uses nothing")
	must.Is(t, second.Join(ctx, c, "v", now), fleet.ErrKey, "a key that only views")
	must.Is(t, second.Join(ctx, c, "k", now+100), fleet.ErrKey, "an expired key")
	must.Do(t, second.Join(ctx, b, "k", now))
	must.Is(t, second.Join(ctx, c, "k", now), fleet.ErrKey, "a key that was used twice")
	must.True(t, a.ID > 0 && b.ID > a.ID, "numbers %d, %d", a.ID, b.ID)

	must.Do(t, first.Drain(ctx, b.ID, 77))
	b.Version = "2"
	must.Do(t, second.PutHosts(ctx, b)) // which knows nothing of the drain
	must.Do(t, first.Remove(ctx, a.ID))
	must.Do(t, second.Revoke(ctx))
	n := must.Get(second.News(ctx, beginning))(t)
	must.Need(t, len(n.Hosts) == 2 && len(n.Keys) == 2 && !n.More, "%+v", n)
	must.True(t, n.Hosts[0].Removed && n.Hosts[0].Boot == "b\x00" && n.Hosts[1].Drained == 77 && n.Hosts[1].Version == "2", "%+v", n.Hosts)
	must.True(t, !n.Keys[0].Valid(now) && !n.Keys[1].Valid(now), "after all were revoked: %+v", n.Keys)
	must.Len(t, must.Get(first.News(ctx, n.To))(t).Hosts, 0, "nothing is new")

	// Two hubs plan at once, whatever Lead says, for 20 hosts in windows that overlap, and a third
	// one follows: it reads each lease once, in one order, and no host is in two windows.
	const tries, hosts = 60, 20
	var all sync.WaitGroup
	for h, st := range []Store{first, second} {
		all.Go(func() {
			for i := range tries {
				from := int64(1000 + 7*(i/3))
				var leases []fleet.Lease
				for p := range 5 {
					near := int64((3*i+2*p+h)%hosts + 1)
					leases = append(leases, fleet.Lease{Kind: fleet.Visit, Near: near, Far: near%hosts + 1, Span: fleet.Span{From: from, Until: from + 10}})
				}
				must.OK(t, must.Err(st.Plan(ctx, leases)))
			}
		})
	}
	seen, spans := map[int64]int{}, map[int64][]fleet.Span{}
	follow := func() {
		m := must.Get(second.News(ctx, n.To))(t)
		for _, l := range m.Leases {
			seen[l.ID]++
			for _, h := range []int64{l.Near, l.Far} {
				for _, s := range spans[h] {
					must.True(t, seen[l.ID] > 1 || !s.Overlaps(l.Span), "host %d is in %v and %v", h, s, l.Span)
				}
				spans[h] = append(spans[h], l.Span)
			}
		}
		n.To = m.To
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for planning := true; planning; {
		select {
		case <-done:
			planning = false
		default:
		}
		follow()
	}
	stored := map[int64]bool{}
	for m := (fleet.News{More: true}); m.More; {
		m = must.Get(first.News(ctx, m.To))(t)
		for _, l := range m.Leases {
			stored[l.ID] = true
		}
	}
	must.True(t, len(seen) == len(stored) && len(seen) > hosts, "read %d of %d leases", len(seen), len(stored))
	for id, times := range seen {
		must.True(t, times == 1 && stored[id], "lease %d was read %d times", id, times)
	}

	// Of three runs that share two slots, two are planned for one window, and the setup that says so
	// reaches the other hub.
	var three []fleet.Lease
	for i := range int64(3) {
		three = append(three, fleet.Lease{Near: 100 + 2*i, Far: 101 + 2*i, Span: fleet.Span{From: 90_000 + i, Until: 90_020}, Uses: []fleet.Use{{Resource: 1 << 30, Slots: 2}}})
	}
	must.Equal(t, must.Get(first.Plan(ctx, three))(t), 2, "runs that share two slots")
	must.Do(t, second.Apply(ctx, &fleet.Setup{Shared: []fleet.Shared{{Name: "up", Around: []string{"a"}, AtOnce: 2}}}))
	m := must.Get(first.News(ctx, n.To))(t)
	must.Need(t, m.Setup != nil && m.Setup.Shared[0].AtOnce == 2 && len(m.Leases) == 2, "%+v", m)
	must.True(t, must.Get(first.News(ctx, m.To))(t).Setup == nil, "the setup is new again")
	n.To = m.To
	told := []fleet.Alert{{Kind: "silent", At: at, Text: "a"}, {Kind: "back", At: at, Text: "b"}}
	must.Do(t, errors.Join(first.PutAlert(ctx, &told[0]), second.PutAlert(ctx, &told[1])))
	m = must.Get(first.News(ctx, n.To))(t)
	must.True(t, len(m.Alerts) == 2 && m.Alerts[0].Kind == "silent" && m.Alerts[0].ID == told[0].ID && m.Alerts[1].ID == told[1].ID && told[1].ID > told[0].ID, "%+v", m.Alerts)
	n.To = m.To

	// A result counts once, whichever hub it comes to, and a late one takes the place of "lost".
	some := must.Get(first.News(ctx, beginning))(t).Leases[0]
	result := func(st Store, near int64, state fleet.LeaseState) int {
		r := some
		r.State = state
		return len(must.Get(st.Finish(ctx, near, now, []fleet.Lease{r, {ID: 1 << 40, State: state}}))(t))
	}
	got := fmt.Sprint(result(first, some.Far, fleet.Done), result(second, 0, fleet.Lost), result(first, 0, fleet.Lost), result(second, some.Near, fleet.Done), result(first, some.Near, fleet.Done), result(first, some.Near, fleet.Failed))
	must.Equal(t, got, "0 1 0 1 0 0", "results that counted")
	m = must.Get(second.News(ctx, n.To))(t)
	must.True(t, len(m.Leases) == 1 && m.Leases[0].State == fleet.Done && m.Leases[0].Reported == now, "%+v", m.Leases)

	must.Do(t, first.Forget(ctx, 1<<31))
	m = must.Get(second.News(ctx, beginning))(t)
	must.True(t, len(m.Leases) == 0 && len(m.Alerts) == 0, "after all were forgotten: %+v", m)
	must.Equal(t, must.Get(second.Plan(ctx, []fleet.Lease{some}))(t), 1, "what was forgotten holds nothing")
}
