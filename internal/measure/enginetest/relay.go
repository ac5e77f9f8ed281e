package enginetest

import (
	"context"
	"net"
	"sync"
	"testing"
)

// Relay puts pass between the near end and where it has dialed until now. pass
// gets the two connections of each that the near end opens, hands on what comes,
// and returns when one of them ends; then both are closed. All have ended when
// the test has: the relay's listener is closed, and what pass reads or writes
// fails.
func (w *Wire) Relay(t testing.TB, pass func(near, far *net.TCPConn)) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP("127.0.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	target := w.Target
	w.Target = l.Addr().String()
	r := relay{pass: pass}
	r.running.Go(func() { r.serve(l, target) })
	t.Cleanup(func() {
		l.Close()
		r.closeAll()
		r.running.Wait()
	})
}

// relay is what runs between two ends.
type relay struct {
	pass    func(near, far *net.TCPConn)
	running sync.WaitGroup
	mu      sync.Mutex
	conns   []*net.TCPConn
	over    bool
}

func (r *relay) serve(l *net.TCPListener, target string) {
	for {
		near, err := l.AcceptTCP()
		if err != nil {
			return
		}
		c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", target)
		if err != nil {
			near.Close()
			return
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

// keep notes connections, to be closed with the test.
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
		c.Close() // again, where it has ended
	}
}
