package data

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"linerate/internal/measure/sockio"
)

// UDP sockets of a run are opened with the help of one of its TCP connections,
// the rendezvous, so that both ends know for certain when all of them stand:
//
//	acceptor  -> connector  over TCP: its UDP port, 2 bytes, big-endian
//	connector -> acceptor   over UDP, from each socket, again and again:
//	                        magic "lr-udp-1", token, index (2 bytes), two zeros
//	acceptor  -> connector  over UDP, from a socket connected to the sender:
//	                        magic "lr-udp-2", SHA-256 of token and index
//	connector -> acceptor   over TCP, when every socket was answered: 0x06
//
// The answer may come from another address or port than the greeting went to;
// the connector talks to where it came from. An answer is shorter than a
// greeting, so a forged one gains nothing.
const (
	greeting     = "lr-udp-1"
	answering    = "lr-udp-2"
	greetingSize = len(greeting) + tokenBytes + 4
	answerSize   = len(answering) + sha256.Size

	greetEvery = 100 * time.Millisecond // between greetings of one socket
)

// MaxSockets is the most UDP sockets of one run.
const MaxSockets = MaxConns

func greet(token Token, index int) []byte {
	b := append([]byte(greeting), token[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(index))
	return append(b, 0, 0)
}

// readGreeting returns token and index of a greeting.
func readGreeting(b []byte) (token []byte, index int, ok bool) {
	if len(b) != greetingSize || string(b[:len(greeting)]) != greeting || b[greetingSize-2] != 0 || b[greetingSize-1] != 0 {
		return nil, 0, false
	}
	rest := b[len(greeting):]
	return rest[:tokenBytes], int(binary.BigEndian.Uint16(rest[tokenBytes:])), true
}

func answer(token Token, index int) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint16(token[:], uint16(index)))
	return append([]byte(answering), sum[:]...)
}

// DialUDP opens the run's UDP sockets first…first+n-1, connected with the acceptor
// at host, whose part is Sockets.Take, over the rendezvous.
func DialUDP(ctx context.Context, rendezvous *net.TCPConn, host string, token Token, first, n int) ([]*net.UDPConn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { _ = rendezvous.SetDeadline(time.Unix(1, 0)) })()
	var port [2]byte
	if _, err := io.ReadFull(rendezvous, port[:]); err != nil {
		return nil, fmt.Errorf("open UDP sockets: %w", said(err))
	}
	addr := net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(port[:]))))
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("open UDP sockets: %w", err)
	}
	conns := make([]*net.UDPConn, n)
	var all sync.WaitGroup
	for i := range conns {
		all.Go(func() {
			c, err := dialOne(ctx, to, token, first+i)
			if err != nil {
				cancel(err) // the first error is the one that counts
			}
			conns[i] = c
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		closeUDP(conns)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer from UDP port %s: does a firewall let UDP through? %w", addr, err)
		}
		return nil, fmt.Errorf("open UDP sockets: %w", err)
	}
	if _, err := rendezvous.Write([]byte{accepted}); err != nil {
		closeUDP(conns)
		return nil, fmt.Errorf("open UDP sockets: %w", err)
	}
	return conns, nil
}

// said explains the end of a rendezvous.
func said(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the other end gave them up")
	}
	return err
}

// dialOne greets until it is answered, then connects to who answered.
func dialOne(ctx context.Context, to *net.UDPAddr, token Token, index int) (*net.UDPConn, error) {
	network := "udp4"
	if to.IP.To4() == nil {
		network = "udp6"
	}
	c, err := net.ListenUDP(network, nil)
	if err != nil {
		return nil, err
	}
	from, err := greetUntilAnswered(ctx, c, to, token, index)
	local := c.LocalAddr().(*net.UDPAddr)
	_ = c.Close()
	if err != nil {
		return nil, err
	}
	// The same port again, so that the other end and every NAT know it.
	return net.DialUDP(network, &net.UDPAddr{Port: local.Port}, net.UDPAddrFromAddrPort(from))
}

func greetUntilAnswered(ctx context.Context, c *net.UDPConn, to *net.UDPAddr, token Token, index int) (netip.AddrPort, error) {
	hello, want := greet(token, index), answer(token, index)
	var b [answerSize + 1]byte
	for {
		if err := context.Cause(ctx); err != nil {
			return netip.AddrPort{}, err
		}
		// A full queue or an answer of "port unreachable" to the one before is
		// no reason to give up; the context is.
		_, _ = c.WriteToUDP(hello, to)
		for until := time.Now().Add(greetEvery); ; {
			if err := c.SetReadDeadline(until); err != nil {
				return netip.AddrPort{}, err
			}
			n, from, err := c.ReadFromUDPAddrPort(b[:])
			if err != nil {
				break
			}
			if subtle.ConstantTimeCompare(b[:n], want) == 1 {
				return netip.AddrPortFrom(from.Addr().Unmap().WithZone(from.Addr().Zone()), from.Port()), nil
			}
		}
	}
}

func closeUDP(conns []*net.UDPConn) {
	for _, c := range conns {
		if c != nil {
			_ = c.Close()
		}
	}
}

// UDPRouter gives the greetings that come to one UDP port to the runs that wait
// for them. It is safe for concurrent use.
type UDPRouter struct {
	conn    *net.UDPConn
	running sync.WaitGroup

	mu      sync.Mutex
	waiting []*Sockets
}

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
	r.running.Go(r.serve)
	return r, nil
}

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
			continue // an ICMP message about an earlier answer
		}
		if token, index, ok := readGreeting(b[:n]); ok {
			if s := r.find(token); s != nil {
				s.greeted(index, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
			}
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

// Sockets are the UDP sockets of one run on the accepting end.
type Sockets struct {
	router  *UDPRouter
	own     bool // the router serves this run only
	token   Token
	first   int // index of conns[0]
	running sync.WaitGroup
	ended   sync.Once

	mu    sync.Mutex
	conns []*net.UDPConn // nil until greeted
	over  bool
}

// Expect makes r answer the sockets first…first+n-1 of the run with that token,
// until Take returned or Close.
func (r *UDPRouter) Expect(token Token, first, n int) (*Sockets, error) {
	if n < 1 || first < 0 || first+n > MaxSockets {
		return nil, fmt.Errorf("expect %d UDP sockets: 1 to %d are possible", n, MaxSockets)
	}
	s := &Sockets{router: r, token: token, first: first, conns: make([]*net.UDPConn, n)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, s)
	return s, nil
}

// greeted opens the socket of a greeting that comes for the first time.
func (s *Sockets) greeted(index int, from netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := index - s.first
	if s.over || i < 0 || i >= len(s.conns) || s.conns[i] != nil {
		return
	}
	c, err := s.router.connect(from)
	if err != nil {
		return // the connector greets again, and gives up in the end
	}
	s.conns[i] = c
	s.running.Go(func() { s.answerAll(c, index) })
}

// connect opens a socket connected to peer, with the router's own port where the
// system can share it.
func (r *UDPRouter) connect(peer netip.AddrPort) (*net.UDPConn, error) {
	network := "udp4"
	if peer.Addr().Is6() {
		network = "udp6"
	}
	local := *r.conn.LocalAddr().(*net.UDPAddr)
	if local.IP.IsUnspecified() {
		local.IP = nil
	}
	d := net.Dialer{LocalAddr: &local, Control: sockio.ReusePort}
	c, err := d.Dial(network, peer.String())
	if err != nil {
		local.Port = 0
		c, err = (&net.Dialer{LocalAddr: &local}).Dial(network, peer.String())
	}
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// answerAll answers the greeting that opened c and those that come again, until
// the socket is handed over.
func (s *Sockets) answerAll(c *net.UDPConn, index int) {
	reply := answer(s.token, index)
	var b [greetingSize + 1]byte
	for {
		_, _ = c.Write(reply) // a lost answer is asked for again
		for {
			n, err := c.Read(b[:])
			if netErr, ok := errors.AsType[net.Error](err); errors.Is(err, net.ErrClosed) || ok && netErr.Timeout() {
				return
			}
			if _, _, again := readGreeting(b[:n]); err == nil && again {
				break
			}
		}
	}
}

// Take tells the connector over the rendezvous where to greet, waits until all
// its sockets were answered and gives them to the caller, in order. What was
// greeted twice may still be on its way: datagrams that the user of a socket
// does not know are to be ignored.
func (s *Sockets) Take(ctx context.Context, rendezvous *net.TCPConn) ([]*net.UDPConn, error) {
	defer context.AfterFunc(ctx, func() { _ = rendezvous.SetDeadline(time.Unix(1, 0)) })()
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
	if _, err := rendezvous.Write(binary.BigEndian.AppendUint16(nil, uint16(s.router.Port()))); err != nil {
		return nil, err
	}
	var done [1]byte
	if _, err := io.ReadFull(rendezvous, done[:]); err != nil {
		return nil, said(err)
	}
	s.finish()
	if done[0] != accepted || slices.Contains(s.conns, nil) {
		return nil, errors.New("the other end greeted from too few sockets")
	}
	for _, c := range s.conns {
		if err := c.SetDeadline(time.Time{}); err != nil {
			return nil, err
		}
	}
	conns := s.conns
	s.conns = nil
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
		for _, c := range s.conns {
			if c != nil {
				_ = c.SetDeadline(time.Unix(1, 0))
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
	closeUDP(s.conns)
	s.conns = nil
	return nil
}
