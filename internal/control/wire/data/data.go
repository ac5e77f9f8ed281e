// Package data opens the TCP connections that carry the payload of a run.
//
// One end accepts, the other connects; either may send, so that a host behind NAT can do both.
// The connecting end first proves that it belongs to the run. The preamble has a fixed size, all
// numbers are big-endian:
//
//	offset  bytes  meaning
//	0       8      magic, "lr-data1"
//	8       32     the run's token, random, used for this run only
//	40      2      index of the connection in the run, from 0
//	42      2      zero
//
// The acceptor compares the token in constant time with those of all waiting runs. It answers
// with one byte, 0x06, and from then on both directions are payload. It closes a connection
// whose preamble is wrong in any way.
package data

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"linerate/internal/control/wire"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
)

// The parts of the preamble.
const (
	magic        = "lr-data1"
	tokenBytes   = 32
	preambleSize = len(magic) + tokenBytes + 4
	accepted     = 0x06 // the acceptor's answer: ACK of ASCII
)

// FirstByte begins every preamble and no TLS record (0x16, RFC 8446 section 5.1).
const FirstByte = 'l'

// MaxConns is the most connections of one run: 1000 streams in both directions.
const MaxConns = 2000

// HandshakeTimeout is how long the other end may take for its part of the preamble: long enough
// for three lost segments in sequence with the initial timeout of 1 s (RFC 6298 section 2).
const HandshakeTimeout = 10 * time.Second

// Token proves that a connection belongs to a run.
type Token [tokenBytes]byte

// ErrToken reports that a connection's preamble matches no waiting run.
var ErrToken = errors.New("no run waits for this connection")

// Dial connects to an acceptor at addr with the options o, as connection index of the run with
// this token, and returns when the acceptor has accepted. It retries if the acceptor hangs up;
// see wire.Again.
func Dial(ctx context.Context, addr string, token Token, index int, o engine.SocketOptions) (conn *net.TCPConn, warnings []string, err error) {
	err = wire.Again(ctx, func() error {
		conn, warnings, err = dial(ctx, addr, token, index, o)
		return err
	})
	return conn, warnings, err
}

func dial(ctx context.Context, addr string, token Token, index int, o engine.SocketOptions) (*net.TCPConn, []string, error) {
	c, err := sockio.Dial(ctx, net.Dialer{Timeout: HandshakeTimeout}, "tcp", addr, o)
	if err != nil {
		return nil, nil, fmt.Errorf("open data connection: %w", err)
	}
	conn, ok := c.(*net.TCPConn)
	if !ok {
		_ = c.Close()
		return nil, nil, fmt.Errorf("open data connection: %T is not TCP", c)
	}
	warnings, err := offer(ctx, conn, token, index, o)
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("open data connection to %s: %w", addr, err)
	}
	return conn, warnings, nil
}

// offer sends the preamble and waits for the answer.
func offer(ctx context.Context, conn *net.TCPConn, token Token, index int, o engine.SocketOptions) ([]string, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err := shake(conn, token, index)
	if !stop() {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	return sockio.Apply(conn, o)
}

func shake(conn *net.TCPConn, token Token, index int) error {
	if err := conn.SetDeadline(time.Now().Add(HandshakeTimeout)); err != nil {
		return err
	}
	b := append([]byte(magic), token[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(index))
	b = append(b, 0, 0)
	if _, err := conn.Write(b); err != nil {
		return err
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("the other end closed it: it waits for no such run, or is besieged: %w", err)
		}
		return err
	}
	if answer[0] != accepted {
		return fmt.Errorf("the other end is not linerate: it answered 0x%02x", answer[0])
	}
	return nil
}

// Router passes incoming connections to the runs that wait for them. Its zero value is ready
// for use. It is safe for concurrent use.
type Router struct {
	mu      sync.Mutex
	waiting []*Expected
}

// Expected are the connections of one run.
type Expected struct {
	token   Token
	ahead   int
	from    func(netip.Addr) bool // reports whether connections from an address are accepted; nil: from everywhere
	forget  func() error
	arrived chan struct{} // holds one element when something arrived
	closed  chan struct{}

	mu    sync.Mutex
	next  int                  // after the last connection requested by Take
	conns map[int]*net.TCPConn // arrived, not yet taken; nil when taken
	once  sync.Once
}

// Expect makes r accept connections for the run with this token, until Close: those requested by
// Take, and up to ahead more that come early. So a peer cannot have more waiting connections
// than the run has streams.
func (r *Router) Expect(token Token, ahead int) (*Expected, error) {
	return r.expect(token, ahead, nil)
}

// expect is Expect for connections from addresses that from accepts; nil accepts all.
func (r *Router) expect(token Token, ahead int, from func(netip.Addr) bool) (*Expected, error) {
	if ahead < 0 || ahead > MaxConns {
		return nil, fmt.Errorf("expect %d data connections: at most %d are possible", ahead, MaxConns)
	}
	e := &Expected{
		token: token, ahead: ahead, from: from, conns: map[int]*net.TCPConn{},
		arrived: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	e.forget = func() error { r.remove(e); return nil }
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiting {
		if subtle.ConstantTimeCompare(w.token[:], token[:]) == 1 {
			return nil, errors.New("expect data connections: this token is in use")
		}
	}
	r.waiting = append(r.waiting, e)
	return e, nil
}

func (r *Router) remove(e *Expected) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(w *Expected) bool { return w == e })
}

// find compares with every waiting run, so that its time reveals nothing.
func (r *Router) find(token []byte) *Expected {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found *Expected
	for _, w := range r.waiting {
		if subtle.ConstantTimeCompare(w.token[:], token) == 1 {
			found = w
		}
	}
	return found
}

// Handle reads the preamble of an incoming connection, whose first bytes are in head, and passes
// it to its run. If it matches no run it gets no answer: the caller closes it, and the error wraps
// ErrToken.
func (r *Router) Handle(conn *net.TCPConn, head []byte, timeout time.Duration) error {
	if err := r.handle(conn, head, timeout); err != nil {
		return fmt.Errorf("accept data connection: %w", err)
	}
	return nil
}

func (r *Router) handle(conn *net.TCPConn, head []byte, timeout time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	var b [preambleSize]byte
	n := copy(b[:], head)
	if _, err := io.ReadFull(conn, b[n:]); err != nil {
		return err
	}
	token := b[len(magic) : len(magic)+tokenBytes]
	index := int(binary.BigEndian.Uint16(b[len(magic)+tokenBytes:]))
	e := r.find(token)
	if string(b[:len(magic)]) != magic || e == nil || b[preambleSize-2] != 0 || b[preambleSize-1] != 0 {
		return ErrToken
	}
	return e.deliver(conn, index)
}

// deliver answers and stores the connection; it accepts each index once.
func (e *Expected) deliver(conn *net.TCPConn, index int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, taken := e.conns[index]; taken || index >= min(e.next+e.ahead, MaxConns) || e.isClosed() {
		return ErrToken
	}
	if e.from != nil && !e.from(conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()) {
		return ErrToken
	}
	if _, err := conn.Write([]byte{accepted}); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	e.conns[index] = conn
	select {
	case e.arrived <- struct{}{}:
	default:
	}
	return nil
}

func (e *Expected) isClosed() bool {
	select {
	case <-e.closed:
		return true
	default:
		return false
	}
}

// Take waits for the connections first…first+n-1 and returns them in this order, with the
// options o applied. Calls must not overlap.
func (e *Expected) Take(ctx context.Context, first, n int, o engine.SocketOptions) ([]*net.TCPConn, []string, error) {
	e.mu.Lock()
	e.next = max(e.next, first+n)
	e.mu.Unlock()
	for {
		if conns := e.takeAll(first, n); conns != nil {
			return applyAll(conns, o)
		}
		select {
		case <-e.arrived:
		case <-e.closed:
			return nil, nil, fmt.Errorf("accept data connections: %w", net.ErrClosed)
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("accept data connections: %d of %d came: %w", e.count(first, n), n, ctx.Err())
		}
	}
}

func (e *Expected) count(first, n int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	got := 0
	for i := range n {
		if e.conns[first+i] != nil {
			got++
		}
	}
	return got
}

// takeAll returns the connections if all have arrived, else nil.
func (e *Expected) takeAll(first, n int) []*net.TCPConn {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*net.TCPConn, n)
	for i := range n {
		if out[i] = e.conns[first+i]; out[i] == nil {
			return nil
		}
	}
	for i := range n {
		e.conns[first+i] = nil // the key stays: each index comes once
	}
	return out
}

func applyAll(conns []*net.TCPConn, o engine.SocketOptions) ([]*net.TCPConn, []string, error) {
	var warnings []string
	for _, c := range conns {
		w, err := sockio.Apply(c, o)
		if err != nil {
			closeAll(conns)
			return nil, nil, fmt.Errorf("set up data connection: %w", err)
		}
		warnings = append(warnings, w...)
	}
	return conns, warnings, nil
}

func closeAll(conns []*net.TCPConn) {
	for _, c := range conns {
		if c != nil {
			_ = c.Close()
		}
	}
}

// Close stops accepting and closes the connections that were not taken. It is idempotent.
func (e *Expected) Close() error {
	var err error
	e.once.Do(func() {
		err = e.forget()
		e.mu.Lock()
		defer e.mu.Unlock()
		close(e.closed)
		for _, c := range e.conns {
			if c != nil {
				_ = c.Close()
			}
		}
		e.conns = map[int]*net.TCPConn{}
	})
	return err
}
