package tls

import (
	"crypto/subtle"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/control/session"
)

// Failed secrets per source are forgotten after failureWindow; more than
// maxFailures in it are refused unheard. The secret has 256 bits: this is to
// keep the noise down.
const (
	failureWindow = time.Minute
	maxFailures   = 5
	maxSources    = 4096 // sources with failures that are remembered
)

// guard decides who gets a session. It is safe for concurrent use.
type guard struct {
	secret    []byte // nil: open
	most      int    // sessions
	perSource int    // sessions of one source
	now       func() time.Time

	mu       sync.Mutex
	sessions map[netip.Prefix]int
	total    int
	failures map[netip.Prefix]*failures
}

type failures struct {
	count int
	since time.Time
}

// source is who counts as one: an IPv4 address, or an IPv6 network of 64 bits,
// which is what one host gets (RFC 7421).
func source(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil { // an address that is none; all of those are one source
		return netip.Prefix{}
	}
	return p
}

// admit gives from a session, until release is called, or says why not.
func (g *guard) admit(from netip.Prefix, secret []byte) (release func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.checkSecret(from, secret); err != nil {
		return nil, err
	}
	if g.total >= g.most {
		return nil, fmt.Errorf("%w: this server already has %d sessions, its limit: try again later", session.ErrBusy, g.total)
	}
	if g.sessions[from] >= g.perSource {
		return nil, fmt.Errorf("%w: this server already has %d sessions from your address, its limit: close one of them", session.ErrBusy, g.sessions[from])
	}
	g.total++
	g.sessions[from]++
	var once sync.Once
	return func() { once.Do(func() { g.release(from) }) }, nil
}

func (g *guard) release(from netip.Prefix) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total--
	if g.sessions[from]--; g.sessions[from] == 0 {
		delete(g.sessions, from)
	}
}

func (g *guard) checkSecret(from netip.Prefix, secret []byte) error {
	if g.secret == nil {
		return nil
	}
	g.forget()
	f := g.failures[from]
	if f != nil && f.count >= maxFailures || f == nil && len(g.failures) >= maxSources {
		return fmt.Errorf("%w: too many wrong secrets from your address: wait a minute", session.ErrRefused)
	}
	if subtle.ConstantTimeCompare(secret, g.secret) == 1 {
		delete(g.failures, from)
		return nil
	}
	if f == nil {
		f = &failures{since: g.now()}
		g.failures[from] = f
	}
	f.count++
	if len(secret) == 0 {
		return fmt.Errorf("%w: this server wants the secret of its join link: use the whole link that linerate serve prints there", session.ErrRefused)
	}
	return fmt.Errorf("%w: the secret is wrong: use the link that linerate serve prints there now", session.ErrRefused)
}

// forget drops failures that are long past.
func (g *guard) forget() {
	for from, f := range g.failures {
		if g.now().Sub(f.since) >= failureWindow {
			delete(g.failures, from)
		}
	}
}
