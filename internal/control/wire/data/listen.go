package data

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

// maxHandshakes is how many connections may be in their preamble at a time on an ephemeral port.
// Further ones wait in the kernel's queue.
const maxHandshakes = 64

// For returns the source for a run that asks for ports or for an address. A source that opens a
// port per run uses them; one that shares a port ignores them.
func For(s Source, ports model.Ports, host string) Source {
	own, ok := s.(Ephemeral)
	if !ok {
		return s
	}
	if own.Ports == (model.Ports{}) {
		own.Ports = ports
	}
	if host != "" {
		own.Host = host
	}
	return own
}

// Port accepts the connections of one run.
type Port struct {
	*Expected
	Number int // TCP port
}

// Source opens ports for runs.
type Source interface {
	// Open accepts TCP connections. o are the options of the run's first ones, for ports whose
	// options can be set before the handshake. ahead is how many may arrive before Take requests
	// them.
	Open(ctx context.Context, token Token, ahead int, o engine.SocketOptions) (Port, error)
	// OpenUDP accepts the run's UDP sockets first…first+n-1. The caller calls Take
	// or Close.
	OpenUDP(ctx context.Context, token Token, first, n int) (*Sockets, error)
}

// Ephemeral opens a separate port for every run, on all addresses, and closes it with the run.
// Its zero value is ready for use.
type Ephemeral struct {
	Host  string      // address to listen on; "" is all
	Ports model.Ports // that may be used; the zero value is any free port
}

// first calls open with each permitted port until one succeeds. If none does, it returns the
// first error.
func (s Ephemeral) first(open func(addr string) error) error {
	var first error
	for port := s.Ports.First; port <= s.Ports.Last; port++ {
		err := open(net.JoinHostPort(s.Host, strconv.Itoa(port)))
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Open listens on a free port with o set, so that the SYN of every connection announces the
// windows and segment sizes.
func (s Ephemeral) Open(ctx context.Context, token Token, ahead int, o engine.SocketOptions) (Port, error) {
	lc := net.ListenConfig{Control: sockio.Control(o)}
	lc.SetMultipathTCP(o.MPTCP)
	var l net.Listener
	err := s.first(func(addr string) (err error) {
		l, err = lc.Listen(ctx, "tcp", addr)
		return err
	})
	if err != nil {
		return Port{}, fmt.Errorf("listen for data connections: %w", err)
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		_ = l.Close()
		return Port{}, errors.New("listen for data connections: not a TCP address")
	}
	var router Router
	e, err := router.Expect(token, ahead)
	if err != nil {
		_ = l.Close()
		return Port{}, err
	}
	a := acceptor{listener: l, router: &router, open: map[net.Conn]bool{}}
	a.running.Go(panics.From(func(error) { _ = l.Close() }, a.accept))
	forget := e.forget
	e.forget = func() error {
		_ = forget()
		err := l.Close()
		a.abort()
		a.running.Wait()
		return err
	}
	return Port{Expected: e, Number: addr.Port}, nil
}

// OpenUDP listens on a free port.
func (s Ephemeral) OpenUDP(ctx context.Context, token Token, first, n int) (*Sockets, error) {
	var r *UDPRouter
	err := s.first(func(addr string) (err error) {
		r, err = ListenUDP(ctx, addr)
		return err
	})
	if err != nil {
		return nil, err
	}
	sockets, err := r.Expect(token, first, n)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	sockets.own = true
	return sockets, nil
}

// acceptor moves connections from a listener to a router.
type acceptor struct {
	listener net.Listener
	router   *Router
	running  sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]bool // in their preamble
	over bool
}

func (a *acceptor) accept() {
	slots := make(chan struct{}, maxHandshakes)
	for {
		slots <- struct{}{}
		c, err := a.listener.Accept()
		if err != nil {
			return
		}
		conn, ok := c.(*net.TCPConn)
		if !ok || !a.begin(conn) {
			_ = c.Close()
			<-slots
			continue
		}
		a.running.Go(panics.From(func(error) { _ = conn.Close() }, func() {
			defer func() { <-slots }()
			defer a.end(conn)
			if a.router.Handle(conn, nil, HandshakeTimeout) != nil {
				_ = conn.Close() // it matches no run
			}
		}))
	}
}

func (a *acceptor) begin(c net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[c] = true
	return !a.over
}

func (a *acceptor) end(c net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, c)
}

// abort closes the connections that are still in their preamble.
func (a *acceptor) abort() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	for c := range a.open {
		_ = c.Close()
	}
}

// Shared opens no port: connections come through a router on a port with other users, so
// options are set after the handshake.
type Shared struct {
	Router *Router
	Number int        // TCP port that the router's connections come from
	UDP    *UDPRouter // nil: this server has no UDP
	// From reports whether connections from an address are accepted; nil: from everywhere.
	From func(netip.Addr) bool
}

// Open waits for connections at the router.
func (s Shared) Open(_ context.Context, token Token, ahead int, _ engine.SocketOptions) (Port, error) {
	e, err := s.Router.expect(token, ahead, s.From)
	return Port{Expected: e, Number: s.Number}, err
}

// OpenUDP waits for greetings at the UDP router.
func (s Shared) OpenUDP(_ context.Context, token Token, first, n int) (*Sockets, error) {
	if s.UDP == nil {
		return nil, fmt.Errorf("accept UDP sockets: this server has no UDP port: %w", errors.ErrUnsupported)
	}
	return s.UDP.Expect(token, first, n)
}
