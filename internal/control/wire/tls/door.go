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

// Places at the door, for connections that have not identified themselves. Addresses with a
// session have places of their own, so that a running session gets its data connections
// whatever anonymous clients do.
const (
	unknownPlaces = 1024 // unless Config sets it
	friendPlaces  = 512
	looked        = 24 // connections that are examined to find one to close
	// grace is how long a connection may take for its next message before it may be closed to
	// make room: a round trip of a quarter of a second. A connection whose message is being
	// processed is never closed. If all waiting connections are like that, the server accepts
	// none: new ones wait in the listen queue, and connecting often gains nothing over earlier
	// ones. The value is for a door with unknownPlaces; a smaller door scales it down, so that
	// its queue moves on as fast.
	grace = 300 * time.Millisecond
	// retry is how long accepting pauses in that case.
	retry = 5 * time.Millisecond
)

// stage is how far a connection has come at the door. The later the stage, the more it has cost
// the client, and the later the connection is closed.
type stage int

const (
	silent  stage = iota // has sent nothing
	spoke                // has sent its protocol
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
	since   time.Time // when it last became its turn to send
	working bool      // its message is being processed here
	place   int       // index in room.all; -1 after it has left
}

// room is a number of places. When all are taken, each new connection closes an old one: from
// the network, and in it the source, with the most connections, a random one of those at the
// earliest stage. So a client that fills the room competes with itself, and others stay. It is
// the random early drop of OpenSSH (sshd_config MaxStartups) with a fair share.
type room struct {
	places int
	grace  time.Duration
	all    []*knocking
	of     map[netip.Prefix]int // by source, and by network
}

// door is where connections wait until they are identified. It is safe for concurrent use.
type door struct {
	mu       sync.Mutex
	unknown  room
	friends  room
	sessions map[netip.Prefix]int    // by source; a source with one is a friend
	random   func(n int) int         // less than n
	dropped  func(netip.Addr, error) // called for each connection closed to make room
	now      func() time.Time
}

// network returns the network of a that is likely to have one owner: 24 bits of IPv4, 48 of
// IPv6. All invalid addresses are one network.
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

// newDoor returns a door with this many places for anonymous clients and for friends.
func newDoor(unknown, friends int, dropped func(netip.Addr, error)) *door {
	return &door{
		unknown: newRoom(unknown), friends: newRoom(friends),
		sessions: map[netip.Prefix]int{}, random: rand.IntN, now: time.Now, dropped: dropped,
	}
}

func newRoom(places int) room {
	return room{places: places, grace: grace * time.Duration(min(places, unknownPlaces)) / unknownPlaces, of: map[netip.Prefix]int{}}
}

// Why a connection was closed before it identified itself.
var (
	errCrowded = errors.New("made room for others: too many connections have not shown what they are")
	errNoFiles = errors.New("no descriptor is left for connections that have not shown what they are")
)

// enter lets a connection from an address wait. It may close another one for it. If that is not
// possible it returns nil: call it again after retry.
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

// come records the stage that a connection has reached.
func (d *door) come(k *knocking, s stage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k.stage = s
}

// pause records that a connection's next message is awaited, or has arrived.
func (d *door) pause(k *knocking, waits bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k.working, k.since = !waits, d.now()
}

// leave removes a connection from the door, and reports whether it was still there: it may have
// been closed to make room, or have left before.
func (d *door) leave(k *knocking) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	there := k.place >= 0
	k.room.remove(k)
	return there
}

// befriend lets an address use the places of friends until the returned function is called.
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

// friendly reports whether from's source has a session.
func (d *door) friendly(from netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[budget.Source(from)] > 0
}

// shed closes an anonymous client to free a descriptor, if it finds one.
func (d *door) shed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.unknown.all) > 0 && d.close(&d.unknown, d.now(), errNoFiles)
}

// close closes one connection of r whose turn began no later than before, if it finds one.
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

// before reports whether to close a rather than b.
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
