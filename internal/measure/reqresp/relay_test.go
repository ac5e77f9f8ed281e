package reqresp

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"linerate/internal/measure/enginetest"
)

// relay stands between the near and the far end. Each way it holds what it
// passes on for delay, and once, before the n-th piece of all, everything for
// stall.
type relay struct {
	delay  time.Duration
	stall  time.Duration
	n      int64
	pieces atomic.Int64
	gate   sync.RWMutex
}

// start puts the relay in the way of w's near end.
func (r *relay) start(t testing.TB, w *enginetest.Wire) {
	t.Helper()
	w.Relay(t, func(near, far *net.TCPConn) {
		var both sync.WaitGroup
		both.Go(func() { r.pass(near, far) })
		both.Go(func() { r.pass(far, near) })
		both.Wait()
	})
}

type piece struct {
	bytes []byte
	due   time.Time
}

func (r *relay) pass(from, to net.Conn) {
	pieces := make(chan piece, 1024)
	go func() {
		defer close(pieces)
		for {
			b := make([]byte, 64<<10)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			if r.pieces.Add(1) == r.n {
				r.gate.Lock()
				<-time.After(r.stall)
				r.gate.Unlock()
			}
			pieces <- piece{b[:n], time.Now().Add(r.delay)}
		}
	}()
	defer to.Close()
	for p := range pieces {
		if left := time.Until(p.due); left > 0 {
			<-time.After(left)
		}
		r.gate.RLock()
		_, err := to.Write(p.bytes)
		r.gate.RUnlock()
		if err != nil {
			from.Close()
		}
	}
}
