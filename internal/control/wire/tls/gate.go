package tls

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// gate limits how many handshakes compute at a time, and serves sources in turn: a source with
// one handshake waits for one of each other source, not for all of theirs. It is safe for
// concurrent use.
type gate struct {
	mu    sync.Mutex
	free  int
	turns []netip.Prefix                   // waiting sources, the next one first
	lines map[netip.Prefix][]chan struct{} // waiting handshakes of each source, the next one first
	back  []chan struct{}                  // handshakes that were inside before
}

func newGate(n int) *gate {
	return &gate{free: max(1, n), lines: map[netip.Prefix][]chan struct{}{}}
}

// enter waits for the source's turn.
func (g *gate) enter(s netip.Prefix) {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	if len(g.lines[s]) == 0 {
		g.turns = append(g.turns, s)
	}
	g.lines[s] = append(g.lines[s], turn)
	g.mu.Unlock()
	<-turn // those inside only compute: it does not take long
}

// again readmits a handshake that was inside before, and has little left to compute.
func (g *gate) again() {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	g.back = append(g.back, turn)
	g.mu.Unlock()
	<-turn
}

// leave admits the next one.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.back) > 0 {
		close(g.back[0])
		g.back = g.back[1:]
		return
	}
	if len(g.turns) == 0 {
		g.free++
		return
	}
	s := g.turns[0]
	g.turns = g.turns[1:]
	line := g.lines[s]
	close(line[0])
	if len(line) == 1 {
		delete(g.lines, s)
		return
	}
	g.lines[s] = line[1:]
	g.turns = append(g.turns, s)
}

// Bytes that are read before a controller is known. A ClientHello with a post-quantum key share
// has 1.5 to 2 KiB, Finished some dozens; the greeting has 4 KiB and the overhead of its TLS
// records.
const (
	handshakeBytes = 8 << 10
	greetingBytes  = 6 << 10
)

// errTooMuch ends a connection that sends too much before it is known.
var errTooMuch = errors.New("too many bytes before the hello")

// unproven is the connection below TLS until its controller is known. It limits the bytes to
// read, and during the handshake everything between two reads or writes happens inside the gate.
// Read and Write do not run concurrently with know or secured.
type unproven struct {
	net.Conn
	head []byte // bytes already read
	// left is how many bytes may still be read; -1 is unlimited. The goroutine that hangs up
	// writes it while another one reads.
	left   atomic.Int64
	gate   *gate // nil after the handshake
	source netip.Prefix
	// pause is called with true when this end waits for the other one, and with false when it
	// has work again.
	pause func(bool)
}

// handshake calls f, a TLS handshake on this connection, inside the gate.
func (s *unproven) handshake(f func() error) error {
	g := s.gate
	g.enter(s.source)
	defer func() {
		g.leave()
		s.gate = nil
		s.left.Store(greetingBytes)
	}()
	return f()
}

// outside waits for the network outside the gate.
func (s *unproven) outside(f func() (int, error)) (int, error) {
	if s.gate != nil {
		s.gate.leave()
		defer s.gate.again()
	}
	s.pause(true)
	defer s.pause(false)
	return f()
}

// Read reads the bytes in head, then the connection.
func (s *unproven) Read(b []byte) (int, error) {
	if len(s.head) > 0 {
		n := copy(b, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	left := s.left.Load()
	if left < 0 {
		return s.Conn.Read(b)
	}
	if left == 0 {
		return 0, errTooMuch
	}
	n, err := s.outside(func() (int, error) { return s.Conn.Read(b[:min(len(b), int(left))]) })
	s.left.Add(-int64(n))
	return n, err
}

// Write writes to the connection, outside the gate.
func (s *unproven) Write(b []byte) (int, error) {
	if s.left.Load() < 0 {
		return s.Conn.Write(b)
	}
	return s.outside(func() (int, error) { return s.Conn.Write(b) })
}
