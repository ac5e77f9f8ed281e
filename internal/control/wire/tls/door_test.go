package tls

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"linerate/internal/measure/budget"
	"linerate/internal/must"
)

// knocker is a connection that records whether it was closed.
type knocker struct{ closed bool }

func (k *knocker) Close() error {
	k.closed = true
	return nil
}

// testDoor returns a door with a server's defaults.
func testDoor() *door { return newDoor(unknownPlaces, friendPlaces, func(netip.Addr, error) {}) }

// aged returns a door where every connection has waited longer than the grace.
func aged() *door {
	d, now := testDoor(), time.Now()
	d.now = func() time.Time {
		now = now.Add(grace)
		return now
	}
	return d
}

func at(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }

// TestDoorClosesTheCrowd: a client that waits alone stays, whatever crowd comes from whatever
// number of addresses of one network.
func TestDoorClosesTheCrowd(t *testing.T) {
	for name, from := range map[string]func(i int) netip.Addr{
		"one address": func(int) netip.Addr { return at(1) },
		"64 addresses": func(i int) netip.Addr {
			return at(i % 64)
		},
		"a /48 of IPv6": func(i int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, byte(i >> 8), byte(i), 15: 1})
		},
	} {
		d, alone := aged(), &knocker{}
		k := d.enter(alone, netip.MustParseAddr("192.0.2.1"))
		for i := range 20_000 {
			d.enter(&knocker{}, from(i))
		}
		must.True(t, !alone.closed, "%s: who waited alone was closed", name)
		d.leave(k)
		n := len(d.unknown.all)
		must.True(t, n == unknownPlaces-1 && len(d.unknown.of) <= 2*n, "%s: %d wait, %d counted", name, n, len(d.unknown.of))
	}
}

// TestDoorKeepsTheYoung: a crowd comes so fast that no connection has had time to identify
// itself: further ones wait outside.
func TestDoorKeepsTheYoung(t *testing.T) {
	d, now := testDoor(), time.Now()
	d.now = func() time.Time { return now }
	for i := range unknownPlaces {
		must.Need(t, d.enter(&knocker{}, at(i)) != nil, "%d do not get in", i)
	}
	must.True(t, d.enter(&knocker{}, at(1)) == nil, "one was closed for another at once")
	now = now.Add(grace)
	must.True(t, d.enter(&knocker{}, at(1)) != nil, "nobody is closed in the end")
}

// Of one source, silent connections are closed before one that has sent something.
func TestDoorClosesTheSilent(t *testing.T) {
	d, mine := aged(), &knocker{}
	d.come(d.enter(mine, at(1)), spoke)
	for range 5000 {
		d.enter(&knocker{}, at(1))
	}
	must.True(t, !mine.closed, "one that spoke was closed for silent ones")
}

// A crowd from everywhere closes a waiting connection only by chance: one in as many as there
// are places.
func TestDoorIsFairByLot(t *testing.T) {
	const tries, crowd = 400, 100
	lost := 0
	d := aged()
	for i := range unknownPlaces {
		d.enter(&knocker{}, netip.AddrFrom4([4]byte{byte(i), byte(i >> 8), 1, 1}))
	}
	for range tries {
		mine := &knocker{}
		k := d.enter(mine, netip.MustParseAddr("192.0.2.1"))
		for i := range crowd {
			d.enter(&knocker{}, netip.AddrFrom4([4]byte{byte(i), 200, 1, 1}))
		}
		if mine.closed {
			lost++
		}
		d.leave(k)
	}
	// 1-(1-1/1024)^100 is 9 %; the crowd has two in some networks.
	must.True(t, lost <= tries*20/100, "%d of %d were closed", lost, tries)
}

// Anonymous clients take no places from clients with a session.
func TestFriendsHavePlaces(t *testing.T) {
	d := aged()
	end := d.befriend(at(7))
	var mine []*knocker
	for range 64 {
		k := &knocker{}
		mine = append(mine, k)
		d.enter(k, at(7))
	}
	for i := range 10_000 {
		d.enter(&knocker{}, netip.AddrFrom4([4]byte{byte(i), byte(i >> 8), 1, 1}))
	}
	for d.shed() {
	}
	for i, k := range mine {
		must.Need(t, !k.closed, "data connection %d was closed", i)
	}
	end()
	end()
	d.enter(&knocker{}, at(7))
	must.True(t, len(d.sessions) == 0 && len(d.friends.all) == 64 && len(d.unknown.all) == 1,
		"%d sessions, %d friends, %d anonymous clients", len(d.sessions), len(d.friends.all), len(d.unknown.all))
}

// TestGateTakesTurns: a source with many handshakes lets one of another source pass after one of
// its own.
func TestGateTakesTurns(t *testing.T) {
	g := newGate(1)
	g.enter(source(0))
	var all sync.WaitGroup
	var before atomic.Int64 // of the crowd, admitted before the other
	for range 200 {
		all.Go(func() {
			g.enter(source(1))
			before.Add(1)
			g.leave()
		})
	}
	queued := func(n int) bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.lines[source(1)])+len(g.lines[source(2)]) == n
	}
	must.Until(t, "200 in the queue", func() bool { return queued(200) })
	var passed int64
	all.Go(func() {
		g.enter(source(2))
		passed = before.Load()
		g.leave()
	})
	must.Until(t, "201 in the queue", func() bool { return queued(201) })
	g.leave()
	all.Wait()
	must.True(t, passed <= 1, "%d of the crowd came before", passed)
	must.True(t, g.free == 1 && len(g.lines) == 0 && len(g.turns) == 0, "%d free, %d lines, %d turns", g.free, len(g.lines), len(g.turns))
}

func source(i int) netip.Prefix { return budget.Source(at(i)) }

// TestPeers: a session exchanges data only with its controller and with peers.
func TestPeers(t *testing.T) {
	s := &Server{config: Config{Peers: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::7/128")}}}
	for to, want := range map[string]bool{
		"192.0.2.1:5299": true, "[::ffff:192.0.2.1]:1": true, "10.1.255.1:22": true, "[fd00::7]:5299": true,
		"192.0.2.2:5299": false, "10.2.0.1:5299": false, "[fd00::8]:1": false, "nas:5299": false, "": false,
	} {
		must.Equal(t, s.onlyTo(netip.MustParseAddr("192.0.2.1"), to) == nil, want, "%q", to)
	}
}
