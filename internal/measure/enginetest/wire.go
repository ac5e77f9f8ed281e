package enginetest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
)

// Wire opens connections between the two ends of a test: the near end dials, the
// far end accepts. Its fields are set before the first end is prepared.
type Wire struct {
	// Target is the address that the near end dials: the listener's, unless a relay has
	// replaced it.
	Target string
	// Change, if not nil, modifies the Env of an end.
	Change func(h model.Host, e *engine.Env)
	// RelayUDP, if not nil, gets the two sockets between each pair and forwards what they
	// receive. Both ends are on loopback then.
	RelayUDP func(near, far *net.UDPConn)

	tb       testing.TB
	listener *net.TCPListener
	host     string // of the far end
	near     place
	far      place
	dialing  sync.Mutex
	waiting  sync.Mutex

	mu     sync.Mutex
	opened int
	calls  map[model.Host]int
	pairs  [][2][]*net.UDPConn // per call of OpenUDP
}

// place runs a function in the network of one end.
type place func(func() error) error

func here(f func() error) error { return f() }

// NewWire returns a wire over IPv4 loopback.
func NewWire(t testing.TB) *Wire {
	t.Helper()
	return newWire(t, "127.0.0.1", here, here)
}

// NewWire6 returns a wire over IPv6 loopback. It skips the test if there is no IPv6.
func NewWire6(t testing.TB) *Wire {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("this system has no IPv6 on loopback: %v", err)
	}
	l.Close()
	return newWire(t, "::1", here, here)
}

func newWire(t testing.TB, host string, near, far place) *Wire {
	t.Helper()
	w := &Wire{tb: t, host: host, near: near, far: far, calls: map[model.Host]int{}}
	err := far(func() (err error) {
		w.listener, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(host)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Target = w.listener.Addr().String()
	t.Cleanup(func() {
		w.listener.Close()
		for _, p := range w.pairs {
			closeAll(p[0])
			closeAll(p[1])
		}
	})
	return w
}

func closeAll(all []*net.UDPConn) {
	for _, c := range all {
		c.Close() // no effect if the engine closed it
	}
}

// Env returns the Env of end h.
func (w *Wire) Env(h model.Host) engine.Env {
	e := engine.Env{
		Host: h,
		Open: func(ctx context.Context, n int, o engine.SocketOptions) (engine.Opened, error) {
			return w.open(ctx, h, n, o)
		},
		OpenUDP: func(_ context.Context, n int) ([]*net.UDPConn, error) { return w.openUDP(h, n) },
	}
	if w.Change != nil {
		w.Change(h, &e)
	}
	return e
}

// Counters records the byte counters of the ends. of returns the counter of a prepared end, nil
// if it has none.
func (w *Wire) Counters() (of func(h model.Host) func() int64) {
	var mu sync.Mutex // both ends prepare at once
	sent := map[model.Host]func() int64{}
	w.Change = func(h model.Host, e *engine.Env) {
		e.Counts = func(f func() int64) {
			mu.Lock()
			defer mu.Unlock()
			sent[h] = f
		}
	}
	return func(h model.Host) func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return sent[h]
	}
}

// Opened returns how many connections the near end has dialed.
func (w *Wire) Opened() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

// Dial opens a connection of the near end, for tests that play this end.
func (w *Wire) Dial(ctx context.Context, o engine.SocketOptions) (c *net.TCPConn, err error) {
	return c, w.near(func() error {
		dialed, err := sockio.Dial(ctx, net.Dialer{}, "tcp", w.Target, o)
		if err == nil {
			c = dialed.(*net.TCPConn)
			w.mu.Lock()
			w.opened++
			w.mu.Unlock()
		}
		return err
	})
}

// Accept accepts a connection of the far end, for tests that play this end.
func (w *Wire) Accept(ctx context.Context, _ engine.SocketOptions) (*net.TCPConn, error) {
	if err := w.listener.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = w.listener.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	return w.listener.AcceptTCP()
}

// AtNear runs f in the near end's namespace, if it has one.
func (w *Wire) AtNear(f func() error) error { return w.near(f) }

// CloseListener stops accepting: later connections are refused.
func (w *Wire) CloseListener() error { return w.listener.Close() }

func (w *Wire) open(ctx context.Context, h model.Host, n int, o engine.SocketOptions) (engine.Opened, error) {
	lock, next := &w.dialing, w.Dial
	if h == model.Far {
		lock, next = &w.waiting, w.Accept
	}
	lock.Lock()
	defer lock.Unlock()
	var out engine.Opened
	for range n {
		c, err := next(ctx, o)
		if err != nil {
			return out, err
		}
		out.Conns = append(out.Conns, c)
		warnings, err := sockio.Apply(c, o)
		if err != nil {
			return out, err
		}
		out.Warnings = append(out.Warnings, warnings...)
	}
	return out, nil
}

// openUDP creates the sockets of both ends at the first end's call.
func (w *Wire) openUDP(h model.Host, n int) ([]*net.UDPConn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	call := w.calls[h]
	w.calls[h]++
	if call == len(w.pairs) {
		var p [2][]*net.UDPConn
		for range n {
			near, far, err := w.pair()
			if err != nil {
				return nil, err
			}
			p[0], p[1] = append(p[0], near), append(p[1], far)
		}
		w.pairs = append(w.pairs, p)
	}
	if h == model.Near {
		return w.pairs[call][0], nil
	}
	return w.pairs[call][1], nil
}

// pair returns two sockets that reach each other, through the relay if there is one.
func (w *Wire) pair() (near, far *net.UDPConn, err error) {
	if w.RelayUDP == nil {
		return connected(w.host, w.near, w.far)
	}
	near, left, err := connected(w.host, here, here)
	if err != nil {
		return nil, nil, err
	}
	right, far, err := connected(w.host, here, here)
	if err != nil {
		return nil, nil, err
	}
	w.RelayUDP(left, right)
	return near, far, nil
}

// ConnectedUDP returns two UDP sockets, one of each end, that are connected to each other and
// closed at the end of the test.
func (w *Wire) ConnectedUDP() (near, far *net.UDPConn) {
	w.tb.Helper()
	near, far, err := connected(w.host, w.near, w.far)
	if err != nil {
		w.tb.Fatal(err)
	}
	w.tb.Cleanup(func() { closeAll([]*net.UDPConn{near, far}) })
	return near, far
}

// connected opens a socket at each of two places, the second one on host.
func connected(host string, near, far place) (a, b *net.UDPConn, err error) {
	ctx := context.Background()
	var at *net.UDPAddr
	err = far(func() error {
		// The second socket takes over its port, so that the first can connect to it.
		first, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", net.JoinHostPort(host, "0"))
		if err != nil {
			return err
		}
		at = first.LocalAddr().(*net.UDPAddr)
		if a, err = dialUDP(ctx, near, nil, at.String()); err != nil {
			first.Close()
			return err
		}
		if err := first.Close(); err != nil {
			return err
		}
		b, err = dialUDP(ctx, here, at, a.LocalAddr().String())
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("connect two sockets in %s: %w", host, err)
	}
	return a, b, nil
}

func dialUDP(ctx context.Context, where place, local *net.UDPAddr, remote string) (c *net.UDPConn, err error) {
	d := net.Dialer{}
	if local != nil {
		d.LocalAddr = local
	}
	return c, where(func() error {
		dialed, err := d.DialContext(ctx, "udp", remote)
		if err == nil {
			c = dialed.(*net.UDPConn)
		}
		return err
	})
}
