// Package budget is the one ledger of what a server gives away: sessions, descriptors, memory,
// disk, UDP rate, bytes sent, run time and stored results.
//
// It counts everything per session, per source, for all anonymous clients together and for the
// server, and refuses a request that exceeds any of the four, with the numbers. Anonymous
// clients can never take the reserve, so a client with a key finds room on a server that
// anonymous clients have filled. No key takes all the sessions for keys, so a leaked key does
// not lock out the others. A source's anonymous use and its use with each key are counted
// apart, since they may be different users behind one address.
//
// The ledger itself is bounded: it remembers some thousand sources one by one, and the spending
// of older ones in a sketch that never underestimates. The time of a call does not depend on
// the number of sources.
package budget

import (
	"container/list"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/units"
)

// ErrSpent is the error that every refusal wraps.
var ErrSpent = errors.New("over the budget")

// ErrOver reports that a session's lifetime is over. It wraps ErrSpent.
var ErrOver = fmt.Errorf("%w: the lifetime of a session is over", ErrSpent)

// Class is the kind of client.
type Class int

// The classes.
const (
	Anonymous Class = iota // without a key
	Keyed                  // authenticated with a key
)

// String returns the class's name in the plural, as reports use it.
func (c Class) String() string {
	if c == Keyed {
		return "key holders"
	}
	return "anonymous clients"
}

// Kind is a resource that the budget limits.
type Kind int

// The kinds. The first ones are held and given back. The last three are spent: they come back
// when a window is over.
const (
	Sessions Kind = iota
	Descriptors
	Memory  // bytes
	Disk    // bytes
	UDP     // bit/s of datagrams without congestion control
	Egress  // bytes sent within a window
	Time    // of runs within a window, nanoseconds
	Records // results kept within a window
	kinds

	held  = Egress // the kinds below are held
	spent = kinds - held
)

// String returns the kind's name, as in --limit.
func (k Kind) String() string {
	switch k {
	case Sessions:
		return "sessions"
	case Descriptors:
		return "descriptors"
	case Memory:
		return "memory"
	case Disk:
		return "disk"
	case UDP:
		return "udp"
	case Egress:
		return "egress"
	case Time:
		return "time"
	case Records:
		return "records"
	case kinds:
	}
	return "unknown"
}

// Amounts are held until they are given back. No field is negative.
type Amounts struct {
	Descriptors int
	Memory      units.Bytes
	Disk        units.Bytes
	UDP         units.BitRate
}

// Limits bound what may be held at a time, and what may be spent within a window. 0 is no
// limit, a negative value allows nothing.
type Limits struct {
	Sessions    int
	Descriptors int
	Memory      units.Bytes
	Disk        units.Bytes
	UDP         units.BitRate
	Egress      units.Bytes
	Time        time.Duration
	Records     int
}

// Run is the most that one run may request, whatever the ledger has left.
type Run struct {
	Time    time.Duration
	Streams int // per direction
	Block   units.Bytes
	UDP     units.BitRate // per direction
	Copy    units.Bytes
}

// AnonymousRun is the limit of a run without a key. It keeps clients from using the server's
// host as a source of traffic.
func AnonymousRun() Run {
	return Run{Time: time.Minute, Streams: 16, Block: 1 << 20, UDP: 100e6, Copy: 256 << 20}
}

// Part is the share of a class of clients.
type Part struct {
	Session  Limits        // of one session; Sessions has no meaning here, Egress and Time cover its whole life
	Source   Limits        // of all sessions of one source; with a key, of that key at that source
	Lifetime time.Duration // of a session, from its opening; 0 is no limit
}

// Config sets the limits of a budget. The zero value limits nothing.
type Config struct {
	Server           Limits // of all together
	AllAnonymous     Limits // of all anonymous clients together; the rest of Server is the reserve
	Anonymous, Keyed Part
	// Window is the period for Egress and Time; 0 is 24 h.
	Window time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// AnonymousSessions returns the most sessions that anonymous clients can have together; for a
// nil Budget the largest possible count.
func (b *Budget) AnonymousSessions() int {
	if b == nil {
		return maxSources
	}
	return int(b.anonymous[Sessions])
}

// part returns the Part of class.
func (c *Config) part(class Class) *Part {
	if class == Keyed {
		return &c.Keyed
	}
	return &c.Anonymous
}

// Bounds of the ledger.
const (
	defaultWindow = 24 * time.Hour
	// maxSources is how many sources are remembered one by one, and so the most that can have
	// sessions at a time.
	maxSources = 4096
	// unlimited is far enough from the end of int64 that two of it can be added.
	unlimited = math.MaxInt64 / 4
)

// amounts is one number for each kind.
type amounts [kinds]int64

// list returns l with one number for each kind, unlimited for no limit.
func (l Limits) list() amounts {
	a := amounts{
		int64(l.Sessions), int64(l.Descriptors), int64(l.Memory), int64(l.Disk), bits(l.UDP), int64(l.Egress), int64(l.Time), int64(l.Records),
	}
	for k := range a {
		switch {
		case a[k] == 0:
			a[k] = unlimited
		case a[k] < 0:
			a[k] = 0
		}
		a[k] = min(a[k], unlimited)
	}
	return a
}

// bits returns r in whole bits per second, rounded up, and at most unlimited.
func bits(r units.BitRate) int64 {
	switch {
	case r >= unlimited || math.IsNaN(float64(r)):
		return unlimited
	case r < 0:
		return -1
	}
	return int64(math.Ceil(float64(r)))
}

// Budget is the ledger of one server. It is safe for concurrent use.
type Budget struct {
	config    Config
	window    time.Duration
	epoch     time.Time
	server    amounts // limits
	anonymous amounts // limits of all anonymous clients together
	session   [2]amounts
	source    [2]amounts

	mu      sync.Mutex
	used    [2]account       // by class
	keys    map[string]int64 // sessions of each key that has any
	known   map[who]*entry
	idle    *list.List // entries without a session, the longest idle first
	older   *sketch
	seeds   [rows]maphash.Seed
	refused amounts
}

// account is what one party holds, and has spent within the window.
type account struct {
	held  [held]int64
	spent [spent]window
}

// New returns an empty budget.
func New(c Config) *Budget {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Window <= 0 {
		c.Window = defaultWindow
	}
	b := &Budget{
		config: c, window: c.Window, epoch: c.Now(), server: c.Server.list(),
		known: map[who]*entry{}, keys: map[string]int64{}, idle: list.New(),
	}
	b.server[Sessions] = min(b.server[Sessions], maxSources)
	for k, n := range c.AllAnonymous.list() {
		b.anonymous[k] = min(n, b.server[k])
	}
	for class := range b.session {
		p := c.part(Class(class))
		b.session[class], b.source[class] = p.Session.list(), p.Source.list()
		b.session[class][Sessions] = unlimited
	}
	for i := range b.seeds {
		b.seeds[i] = maphash.MakeSeed()
	}
	return b
}

// Source returns the network that counts as one source: an IPv4 address, or an IPv6 /64, which
// is what one host gets (RFC 7421). For an invalid address it is the zero Prefix.
func Source(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	length := 32
	if a.Is6() {
		length = 64
	}
	p, err := a.Prefix(length)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// Open begins a session from an address with the named key; "" is an anonymous client. It costs
// a session and the descriptor of its connection. An error wraps ErrSpent and says what is full
// and what to do. A nil Budget has no limits.
func (b *Budget) Open(from netip.Addr, key string) (*Share, error) {
	if b == nil {
		return nil, nil
	}
	class := Keyed
	if key == "" {
		class = Anonymous
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &Share{budget: b, class: class, who: who{Source(from), class, key}, opened: b.config.Now()}
	e := b.enter(s.who)
	if e == nil {
		b.refused[Sessions]++
		return nil, &Refusal{Kind: Sessions, Level: OfServer, Class: class, Need: 1, Limit: maxSources}
	}
	s.entry = e
	err := b.fresh(s)
	if err == nil {
		err = b.crowds(s)
	}
	if err == nil {
		err = b.take(s, amounts{Sessions: 1, Descriptors: 1})
	}
	if err != nil {
		b.leave(e)
		return nil, err
	}
	return s, nil
}

// fresh returns the reason to refuse a session to a source that has spent its limit.
func (b *Budget) fresh(s *Share) error {
	for k := held; k < Records; k++ { // a test can run without a place for its result
		if r := b.over(s, k); r != nil {
			return r
		}
	}
	return nil
}

// newcomers is the part of the sessions for keys that is reserved for keys without a session: a
// quarter. One key gets at most the other three quarters, from however many sources, so that a
// leaked key does not lock out the other keys; and one source gets at most three quarters of
// those.
const newcomers = 4

// crowds returns the reason to refuse a key a session beside those that it has. With fewer than
// four sessions there is nothing to divide.
func (b *Budget) crowds(s *Share) error {
	if s.class == Anonymous {
		return nil
	}
	most := b.server[Sessions] - b.anonymous[Sessions] // what anonymous clients can never take
	if most <= 0 {
		most = b.server[Sessions]
	}
	if most < newcomers {
		return nil
	}
	keys := most - most/newcomers
	total, ofKey, here := b.used[Keyed].held[Sessions], b.keys[s.who.key], s.entry.held[Sessions]
	r := &Refusal{Kind: Sessions, Class: Keyed, Need: 1, Limit: keys}
	switch {
	case ofKey >= keys:
		r.Level, r.Used = OfKey, ofKey
	case here > 0 && (total >= keys || ofKey >= keys-max(1, keys/newcomers)):
		r.Level, r.Used, r.Yours = OfNewcomers, total, here
	default:
		return nil
	}
	b.refused[Sessions]++
	return r
}
