package tls

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/measure/budget"
)

// Places at the door: connections that have not shown yet that they belong to
// somebody. Those of addresses that have a session have places of their own, so
// that a running session gets its data connections whatever anonymous clients do.
const (
	unknownPlaces = 1024 // where Config says nothing else
	friendPlaces  = 512
	looked        = 24 // connections that are looked at to find one to close
	// grace is how long the next word of a connection may take until it may be
	// closed for others: a round trip of a quarter of a second. One whose word is
	// being worked on is never closed for others. While all who wait are like that,
	// nobody is accepted: those who come wait in the listen queue, and coming often
	// does not help against who came before. It is that of a door with unknownPlaces;
	// one with fewer has less in proportion, so that its queue moves on as fast.
	grace = 300 * time.Millisecond
	// retry is how long the accepting waits in that case, before it looks again.
	retry = 5 * time.Millisecond
)

// stage is how far a connection has come at the door. The further, the more it
// has cost who made it, and the later it is closed.
type stage int

const (
	silent  stage = iota // has said nothing
	spoke                // has said what it wants to be
	secured              // has a TLS session
)

// knocking is one connection at the door.
type knocking struct {
	conn    io.Closer
	addr    netip.Addr
	room    *room
	source  netip.Prefix
	network netip.Prefix
	stage   stage
	since   time.Time // when it was last its turn to say something
	working bool      // it has said something, and is not done with here
	place   int       // in room.all; -1 when it has left
}

// room is a number of places. When they are all taken, one connection is closed
// for each that comes: one of the network, and in it of the source, that has most
// there, and of these one of those that have come least far, by lot. So whoever
// fills the room competes with itself, and who comes from elsewhere stays. It is
// the random early drop of OpenSSH (sshd_config MaxStartups) with a fair share.
type room struct {
	places int
	grace  time.Duration
	all    []*knocking
	of     map[netip.Prefix]int // by source, and by network
}

// door is where connections wait until they are known. It is safe for concurrent
// use.
type door struct {
	mu       sync.Mutex
	unknown  room
	friends  room
	sessions map[netip.Prefix]int    // by source: who are friends
	random   func(n int) int         // less than n
	dropped  func(netip.Addr, error) // told who was closed for others
	now      func() time.Time
}

// network is the network that a is likely to share with others of one owner: 24
// bits of IPv4, 48 of IPv6. All addresses that are none are one.
func network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 24
	if a.Is6() {
		bits = 48
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// newDoor returns a door with so many places for anonymous clients and for friends.
func newDoor(unknown, friends int, dropped func(netip.Addr, error)) *door {
	return &door{
		unknown: newRoom(unknown), friends: newRoom(friends),
		sessions: map[netip.Prefix]int{}, random: rand.IntN, now: time.Now, dropped: dropped,
	}
}

func newRoom(places int) room {
	return room{places: places, grace: grace * time.Duration(min(places, unknownPlaces)) / unknownPlaces, of: map[netip.Prefix]int{}}
}

// What a connection was closed for that had not shown what it is.
var (
	errCrowded = errors.New("made room for others: too many connections have not shown what they are")
	errNoFiles = errors.New("no descriptor is left for connections that have not shown what they are")
)

// enter lets a connection from an address wait. It may close another one, and
// returns nil while that is not possible: ask again after retry.
func (d *door) enter(c io.Closer, from netip.Addr) *knocking {
	k := &knocking{conn: c, addr: from, source: budget.Source(from), network: network(from)}
	d.mu.Lock()
	defer d.mu.Unlock()
	k.room, k.since = &d.unknown, d.now()
	if d.sessions[k.source] > 0 {
		k.room = &d.friends
	}
	if len(k.room.all) >= k.room.places && !d.close(k.room, k.since.Add(-k.room.grace), errCrowded) {
		return nil
	}
	k.room.add(k)
	return k
}

// come notes how far a connection has come.
func (d *door) come(k *knocking, s stage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k.stage = s
}

// pause notes that a connection is to say something, or that it has.
func (d *door) pause(k *knocking, waits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k.working, k.since = !waits, d.now()
}

// leave takes a connection from the door, and reports whether it was still there:
// it may have been closed for others, or have left before.
func (d *door) leave(k *knocking) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	there := k.place >= 0
	k.room.remove(k)
	return there
}

// befriend gives an address the places of friends until the function returned is
// called.
func (d *door) befriend(from netip.Addr) (end func()) {
	s := budget.Source(from)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions[s]++
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.sessions[s]--; d.sessions[s] == 0 {
			delete(d.sessions, s)
		}
	})
}

// friendly reports whether a session comes from where from is.
func (d *door) friendly(from netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[budget.Source(from)] > 0
}

// shed closes an anonymous client, for a descriptor that others need, if it finds one.
func (d *door) shed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.unknown.all) > 0 && d.close(&d.unknown, d.now(), errNoFiles)
}

// close closes one connection of r that came before a time, if it finds one.
func (d *door) close(r *room, before time.Time, why error) bool {
	var worst *knocking
	for range looked {
		k := r.all[d.random(len(r.all))]
		if !k.working && !k.since.After(before) && (worst == nil || r.before(k, worst)) {
			worst = k
		}
	}
	if worst == nil {
		return false
	}
	r.remove(worst)
	_ = worst.conn.Close()
	d.dropped(worst.addr, why)
	return true
}

// before reports whether a is closed rather than b.
func (r *room) before(a, b *knocking) bool {
	if x, y := r.of[a.network], r.of[b.network]; x != y {
		return x > y
	}
	if x, y := r.of[a.source], r.of[b.source]; x != y {
		return x > y
	}
	return a.stage < b.stage
}

func (r *room) add(k *knocking) {
	k.place = len(r.all)
	r.all = append(r.all, k)
	r.of[k.source]++
	r.of[k.network]++
}

func (r *room) remove(k *knocking) {
	if k.place < 0 {
		return
	}
	last := r.all[len(r.all)-1]
	r.all[k.place], last.place = last, k.place
	r.all = r.all[:len(r.all)-1]
	k.place = -1
	for _, p := range []netip.Prefix{k.source, k.network} {
		if r.of[p]--; r.of[p] == 0 {
			delete(r.of, p)
		}
	}
}
