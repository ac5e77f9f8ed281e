package enginetest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
)

// Relay inserts pass between the near end and its current target. pass gets the two sides of
// each connection that the near end opens, forwards the data, and returns when one of them
// ends; then both are closed. At the end of t the relay's listener closes and pass's reads and
// writes fail.
func (w *Wire) Relay(t testing.TB, pass func(near, far *net.TCPConn)) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP("127.0.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	target := w.Target
	w.Target = l.Addr().String()
	r := relay{pass: pass}
	r.running.Go(func() { r.serve(t, l, target) })
	t.Cleanup(func() {
		l.Close()
		r.closeAll()
		r.running.Wait()
	})
}

// relay forwards between the two ends.
type relay struct {
	pass    func(near, far *net.TCPConn)
	running sync.WaitGroup
	mu      sync.Mutex
	conns   []*net.TCPConn
	over    bool
}

func (r *relay) serve(t testing.TB, l *net.TCPListener, target string) {
	for {
		near, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			t.Errorf("relay: %v", err)
			return
		}
		c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", target)
		if err != nil { // the far end accepts no more, which may be what is tested
			t.Logf("relay: %v", err)
			near.Close()
			continue
		}
		far := c.(*net.TCPConn)
		r.keep(near, far)
		r.running.Go(func() {
			r.pass(near, far)
			near.Close()
			far.Close()
		})
	}
}

// keep records connections, to be closed at the end of the test.
func (r *relay) keep(all ...*net.TCPConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, all...)
	if r.over {
		r.closeLocked()
	}
}

func (r *relay) closeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.closeLocked()
}

func (r *relay) closeLocked() {
	for _, c := range r.conns {
		c.Close() // no effect on one that has ended
	}
}
