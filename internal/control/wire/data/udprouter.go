package data

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

// UDPRouter passes the greetings that arrive at one UDP port to the runs that wait for them. It
// is safe for concurrent use.
type UDPRouter struct {
	conn    *net.UDPConn
	running sync.WaitGroup

	mu      sync.Mutex
	waiting []*Sockets
}

// readAgain is the pause after a failed read, so that a persistent error does not occupy a CPU.
const readAgain = 5 * time.Millisecond

// ListenUDP opens the router's port at addr, "host:port", and answers greetings until Close.
func ListenUDP(ctx context.Context, addr string) (*UDPRouter, error) {
	lc := net.ListenConfig{Control: sockio.ReusePort}
	p, err := lc.ListenPacket(ctx, "udp", addr)
	if errors.Is(err, errors.ErrUnsupported) {
		p, err = new(net.ListenConfig).ListenPacket(ctx, "udp", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for UDP: %w", err)
	}
	r := &UDPRouter{conn: p.(*net.UDPConn)}
	r.running.Go(panics.From(func(error) { _ = r.conn.Close() }, r.serve))
	return r, nil
}

// GiveTo lets the router still share its port after this process, now root, has become another
// user. If the system cannot do that, runs get other ports.
func (r *UDPRouter) GiveTo(uid, gid int) error { return sockio.GiveTo(r.conn, uid, gid) }

// Port returns the router's UDP port.
func (r *UDPRouter) Port() int { return r.conn.LocalAddr().(*net.UDPAddr).Port }

// Close ends the router. Sockets that were taken stay open.
func (r *UDPRouter) Close() error {
	err := r.conn.Close()
	r.running.Wait()
	return err
}

func (r *UDPRouter) serve() {
	var b [greetingSize + 1]byte
	for {
		n, from, err := r.conn.ReadFromUDPAddrPort(b[:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-time.After(readAgain) // an ICMP error about an earlier answer passes at once, a lack of memory does not
			continue
		}
		// A fault in one greeting does not stop the others.
		_ = panics.Call(func() error {
			r.hear(b[:n], netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
			return nil
		})
	}
}

// hear passes a greeting to its run.
func (r *UDPRouter) hear(b []byte, from netip.AddrPort) {
	if token, index, theirs, ok := readGreeting(b); ok {
		if s := r.find(token); s != nil {
			s.greeted(index, from, theirs)
		}
	}
}

// find compares with every waiting run, so that its time reveals nothing.
func (r *UDPRouter) find(token []byte) *Sockets {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found *Sockets
	for _, s := range r.waiting {
		if subtle.ConstantTimeCompare(s.token[:], token) == 1 {
			found = s
		}
	}
	return found
}

// connect opens a socket at the address local that is connected to peer, on the router's own
// port if the system can share it.
func (r *UDPRouter) connect(local netip.Addr, peer netip.AddrPort) (*net.UDPConn, error) {
	at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, uint16(r.Port())))
	d := net.Dialer{LocalAddr: at, Control: sockio.ReusePort}
	c, err := d.Dial(udpNetwork(peer.Addr()), peer.String())
	if err != nil {
		at.Port = 0
		c, err = (&net.Dialer{LocalAddr: at}).Dial(udpNetwork(peer.Addr()), peer.String())
	}
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// Sockets are the UDP sockets of one run on the accepting end.
type Sockets struct {
	router  *UDPRouter
	own     bool // the router serves only this run
	token   Token
	first   int             // index of all[0]
	strange chan netip.Addr // holds another address that greetings came from
	running sync.WaitGroup
	ended   sync.Once

	mu          sync.Mutex
	local, peer netip.Addr // of the rendezvous; invalid before there is one
	all         []greeted
	over        bool
}

// greeted is the state of one socket.
type greeted struct {
	conn   *net.UDPConn // nil until it was greeted
	from   netip.AddrPort
	mine   nonce // sent to from
	theirs nonce // from the last greeting that reached conn's address
	known  bool  // whether theirs has arrived
}

// Expect makes r answer the sockets first…first+n-1 of the run with this token, from the call of
// Take until it returns, or until Close.
func (r *UDPRouter) Expect(token Token, first, n int) (*Sockets, error) {
	if n < 1 || first < 0 || first+n > MaxSockets {
		return nil, fmt.Errorf("expect %d UDP sockets: 1 to %d are possible", n, MaxSockets)
	}
	s := &Sockets{router: r, token: token, first: first, all: make([]greeted, n), strange: make(chan netip.Addr, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, s)
	return s, nil
}

// greeted answers a greeting that reached the router, and opens the socket on its first one. It
// answers only the peer of the rendezvous.
func (s *Sockets) greeted(index int, from netip.AddrPort, theirs nonce) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := index - s.first
	if s.over || !s.peer.IsValid() || i < 0 || i >= len(s.all) {
		return
	}
	if !sameHost(from.Addr(), s.peer) {
		select {
		case s.strange <- from.Addr():
		default:
		}
		return
	}
	g := &s.all[i]
	if g.conn == nil {
		c, err := s.router.connect(s.local, from)
		if err != nil {
			return // the connector greets again, and gives up eventually
		}
		*g = greeted{conn: c, from: from, mine: newNonce()}
		s.running.Go(panics.From(func(error) { _ = c.Close() }, func() { s.answerAll(i, c) }))
	}
	if g.from != from {
		return // a socket has one peer
	}
	if g.conn.LocalAddr().(*net.UDPAddr).Port == s.router.Port() {
		g.theirs, g.known = theirs, true
	}
	_, _ = g.conn.Write(answer(s.token, index, theirs, g.mine)) // after a lost answer the connector greets again
}

// answerAll answers greetings that reach socket i itself, until the socket is handed over.
func (s *Sockets) answerAll(i int, c *net.UDPConn) {
	var b [greetingSize + 1]byte
	for {
		n, err := c.Read(b[:])
		if netErr, ok := errors.AsType[net.Error](err); errors.Is(err, net.ErrClosed) || ok && netErr.Timeout() {
			return
		}
		token, index, theirs, ok := readGreeting(b[:n])
		if err != nil || !ok || subtle.ConstantTimeCompare(token, s.token[:]) != 1 || index != s.first+i {
			continue
		}
		s.mu.Lock()
		g := &s.all[i]
		g.theirs, g.known = theirs, true
		mine := g.mine
		s.mu.Unlock()
		_, _ = c.Write(answer(s.token, index, theirs, mine))
	}
}

// Take sends the connector the address to greet over the rendezvous, and waits until all its
// sockets were answered and it has proven that it receives there. It returns the sockets in
// order. Repeated greetings may still be on their way: the user of a socket must ignore unknown
// datagrams.
func (s *Sockets) Take(ctx context.Context, rendezvous *net.TCPConn) ([]*net.UDPConn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { _ = rendezvous.SetDeadline(time.Unix(1, 0)) })()
	looking.Go(panics.From(cancel, func() {
		select {
		case a := <-s.strange:
			_, _ = rendezvous.Write(refusal(a)) // else the connector runs into its own timeout
			cancel(otherAddress(a))
		case <-ctx.Done():
		}
	}))
	conns, err := s.take(rendezvous)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, errors.Join(fmt.Errorf("accept UDP sockets: %w", err), s.Close())
	}
	return conns, nil
}

func (s *Sockets) take(rendezvous *net.TCPConn) ([]*net.UDPConn, error) {
	s.mu.Lock()
	s.local, s.peer = host(rendezvous.LocalAddr()), host(rendezvous.RemoteAddr())
	s.mu.Unlock()
	if _, err := rendezvous.Write(binary.BigEndian.AppendUint16(nil, uint16(s.router.Port()))); err != nil {
		return nil, err
	}
	heard, err := hear(rendezvous, len(s.all))
	if err != nil {
		return nil, err
	}
	s.finish()
	mine, theirs := make([]nonce, len(s.all)), make([]nonce, len(s.all))
	for i, g := range s.all {
		if !g.known {
			return nil, errors.New("the other end greeted from too few sockets")
		}
		mine[i], theirs[i] = g.mine, g.theirs
	}
	if err := prove(heard, mine); err != nil {
		return nil, err
	}
	if _, err := rendezvous.Write(agreed(theirs)); err != nil {
		return nil, err
	}
	conns := make([]*net.UDPConn, len(s.all))
	for i, g := range s.all {
		if err := g.conn.SetDeadline(time.Time{}); err != nil {
			return nil, err
		}
		conns[i] = g.conn
	}
	s.all = nil
	return conns, nil
}

// finish stops answering.
func (s *Sockets) finish() {
	s.ended.Do(func() {
		s.router.mu.Lock()
		s.router.waiting = slices.DeleteFunc(s.router.waiting, func(w *Sockets) bool { return w == s })
		s.router.mu.Unlock()
		s.mu.Lock()
		s.over = true
		for _, g := range s.all {
			if g.conn != nil {
				_ = g.conn.SetDeadline(time.Unix(1, 0))
			}
		}
		s.mu.Unlock()
		s.running.Wait()
		if s.own {
			_ = s.router.Close() // the port has no more peers
		}
	})
}

// Close closes the sockets that were not taken. It is idempotent.
func (s *Sockets) Close() error {
	s.finish()
	for _, g := range s.all {
		if g.conn != nil {
			_ = g.conn.Close()
		}
	}
	s.all = nil
	return nil
}
