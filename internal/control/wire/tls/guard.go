package tls

import (
	"crypto/subtle"
	"fmt"
	"net/netip"
	"sync"

	"linerate/internal/control/session"
)

// DefaultKey is the name of the key whose secret is the identity's own.
const DefaultKey = "default"

// Key is what a secret stands for. The zero value is a stranger.
type Key struct {
	Name string // "" for a stranger
	// Tune says that the key's holder may change settings, where the server does.
	Tune bool
	// Over, where given, is closed when the key is valid no longer: its sessions
	// end then.
	Over <-chan struct{}
}

// Stranger reports whether nobody vouches for who has this key.
func (k Key) Stranger() bool { return k.Name == "" }

// Find looks a secret up. It compares in constant time, and takes equally long
// for every secret that it does not know. It is safe for concurrent use.
type Find func(secret []byte) (Key, bool)

// only knows one secret, as the default key.
func only(want []byte) Find {
	return func(secret []byte) (Key, bool) {
		if subtle.ConstantTimeCompare(secret, want) != 1 {
			return Key{}, false
		}
		return Key{Name: DefaultKey}, true
	}
}

// newcomers is the part of the slots that is kept for those who have no session
// yet, so that one who has many cannot keep others out: a quarter. One key gets
// the other three, from however many sources, so that somebody with a key that
// became known does not lock the other keys out; and of these one source gets
// three quarters again.
const newcomers = 4

// guard decides who gets a session. What somebody without a right secret did
// before never counts against a right one: it compares first and remembers no
// failure. It is safe for concurrent use.
type guard struct {
	find      Find
	open      bool // strangers may have sessions too
	keyed     int  // sessions with a key
	strange   int  // sessions without
	perSource int  // sessions without a key of one source

	mu       sync.Mutex
	sessions map[holder]int
	total    map[bool]int // by whether they are strangers'
}

// holder is who has sessions: a key at a source, or a source without a key. One
// key is shared by several hosts, and one source by several keys.
type holder struct {
	key  string
	from netip.Prefix
}

// source is who counts as one: an IPv4 address, or an IPv6 network of 64 bits,
// which is what one host gets (RFC 7421).
func source(a netip.Addr) netip.Prefix { return block(a, 32, 64) }

// block is the network of a, of bits4 or bits6 bits; all addresses that are none
// are one.
func block(a netip.Addr, bits4, bits6 int) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := bits4
	if a.Is6() {
		bits = bits6
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// admit gives from a session, until release is called, or says why not. The
// error wraps session.ErrRefused or session.ErrBusy.
func (g *guard) admit(from netip.Prefix, secret []byte) (k Key, release func(), err error) {
	k, right := g.find(secret)
	switch {
	case right, g.open:
	case len(secret) == 0:
		return Key{}, nil, fmt.Errorf("%w: this server wants the secret of its join link: use the whole link that linerate serve prints there", session.ErrRefused)
	default:
		return Key{}, nil, fmt.Errorf("%w: the secret is wrong: use the link that linerate serve prints there now", session.ErrRefused)
	}
	h := holder{k.Name, from}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.room(k, h); err != nil {
		return Key{}, nil, err
	}
	g.total[k.Stranger()]++
	g.sessions[h]++
	var once sync.Once
	return k, func() { once.Do(func() { g.release(k, h) }) }, nil
}

// room says why h gets no session. Strangers and keys do not take each other's.
func (g *guard) room(k Key, h holder) error {
	total, most := g.total[k.Stranger()], g.keyed
	has := g.sessions[h]
	if k.Stranger() {
		most = g.strange
	}
	switch {
	case total >= most:
		return fmt.Errorf("%w: this server already has %d sessions, its limit: try again later", session.ErrBusy, total)
	case k.Stranger() && has >= g.perSource:
		return fmt.Errorf("%w: this server already has %d sessions from your address, its limit: close one of them", session.ErrBusy, has)
	case k.Stranger() || most < newcomers:
		return nil
	}
	keys := most - most/newcomers // what one key gets
	ofKey := g.held(k.Name)
	switch {
	case ofKey >= keys:
		return fmt.Errorf("%w: this server already has %d sessions with your key, and keeps the rest for other keys: close one of them", session.ErrBusy, ofKey)
	case has > 0 && (total >= keys || ofKey >= keys-max(1, keys/newcomers)):
		return fmt.Errorf("%w: this server already has %d sessions, %d of them yours, and keeps the rest for others: close one of yours", session.ErrBusy, total, has)
	}
	return nil
}

// held is how many sessions a key has, of all sources.
func (g *guard) held(key string) (n int) {
	for h, sessions := range g.sessions {
		if h.key == key {
			n += sessions
		}
	}
	return n
}

func (g *guard) release(k Key, h holder) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total[k.Stranger()]--
	if g.sessions[h]--; g.sessions[h] == 0 {
		delete(g.sessions, h)
	}
}
