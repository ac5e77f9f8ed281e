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
	"linerate/internal/rescue"
)

// UDPRouter gives the greetings that come to one UDP port to the runs that wait
// for them. It is safe for concurrent use.
type UDPRouter struct {
	conn    *net.UDPConn
	running sync.WaitGroup

	mu      sync.Mutex
	waiting []*Sockets
}

// readAgain is how long a failed read waits for the next one, so that an error
// which stays costs no core.
const readAgain = 5 * time.Millisecond

// ListenUDP opens the router's port at addr, "host:port", and answers until
// Close.
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
	r.running.Go(rescue.From(func(error) { _ = r.conn.Close() }, r.serve))
	return r, nil
}

// GiveTo lets the router share its port also once this process, root's so far, has
// become another user. Where a system cannot, runs get other ports.
func (r *UDPRouter) GiveTo(uid, gid int) error { return sockio.GiveTo(r.conn, uid, gid) }

// Port is the router's UDP port.
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
			<-time.After(readAgain) // an ICMP message about an earlier answer passes at once, a lack of memory does not
			continue
		}
		// Whatever is wrong with one greeting, the others are read.
		_ = rescue.Call(func() error {
			r.hear(b[:n], netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
			return nil
		})
	}
}

// hear gives a greeting to its run.
func (r *UDPRouter) hear(b []byte, from netip.AddrPort) {
	if token, index, theirs, ok := readGreeting(b); ok {
		if s := r.find(token); s != nil {
			s.greeted(index, from, theirs)
		}
	}
}

// find compares with every waiting run, so that the time it takes says nothing.
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

// connect opens a socket at the address local connected to peer, with the
// router's own port where the system can share it.
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
	own     bool // the router serves this run only
	token   Token
	first   int             // index of all[0]
	strange chan netip.Addr // holds where else greetings came from
	running sync.WaitGroup
	ended   sync.Once

	mu          sync.Mutex
	local, peer netip.Addr // of the rendezvous; invalid before there is one
	all         []greeted
	over        bool
}

// greeted is a socket that was greeted.
type greeted struct {
	conn   *net.UDPConn // nil until then
	from   netip.AddrPort
	mine   nonce // sent to from
	theirs nonce // last greeting's that came to where conn is
	known  bool  // theirs came
}

// Expect makes r answer the sockets first…first+n-1 of the run with that token,
// from Take on until it returned or Close.
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

// greeted answers a greeting that came to the router, and opens its socket where
// it is the first one. Only the rendezvous' peer is answered.
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
			return // the connector greets again, and gives up in the end
		}
		*g = greeted{conn: c, from: from, mine: newNonce()}
		s.running.Go(rescue.From(func(error) { _ = c.Close() }, func() { s.answerAll(i, c) }))
	}
	if g.from != from {
		return // a socket has one peer
	}
	if g.conn.LocalAddr().(*net.UDPAddr).Port == s.router.Port() {
		g.theirs, g.known = theirs, true
	}
	_, _ = g.conn.Write(answer(s.token, index, theirs, g.mine)) // a lost answer is asked for again
}

// answerAll answers greetings that come to the socket i itself, until it is
// handed over.
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

// Take tells the connector over the rendezvous where to greet, waits until all
// its sockets were answered and it has proven that it receives there, and gives
// them to the caller, in order. What was greeted twice may still be on its way:
// datagrams that the user of a socket does not know are to be ignored.
func (s *Sockets) Take(ctx context.Context, rendezvous *net.TCPConn) ([]*net.UDPConn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { _ = rendezvous.SetDeadline(time.Unix(1, 0)) })()
	looking.Go(rescue.From(cancel, func() {
		select {
		case a := <-s.strange:
			_, _ = rendezvous.Write(refusal(a)) // the connector's own time ends otherwise
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
	told, err := hear(rendezvous, len(s.all))
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
	if err := prove(told, mine); err != nil {
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

// finish answers no more.
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
			_ = s.router.Close() // nothing depends on a port that nobody greets any more
		}
	})
}

// Close closes what was not taken. It is idempotent.
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
