package reqresp

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/hist"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

func FuzzHello(f *testing.F) {
	f.Add(hello{}.encode())
	f.Add(hello{port: 5299, cookie: [cookieSize]byte{1, 2, 3}}.encode())
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n12345"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		must.True(t, err != nil || bytes.Equal(h.encode(), b), "%x is read as %+v, which is %x", b, h, h.encode())
	})
}

func FuzzMark(f *testing.F) {
	f.Add(mark{kind: markReady}.encode())
	f.Add(mark{kind: markOpen}.encode())
	f.Add(mark{kind: markClose, window: time.Second}.encode())
	f.Add(mark{kind: markClose, window: time.Hour}.encode())
	f.Add([]byte("?12345678"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMark(b, time.Minute)
		switch {
		case err != nil:
		case m.window < 0 || m.window > time.Minute:
			t.Errorf("window of %v, at most a minute is possible", m.window)
		case !bytes.Equal(m.encode(), b):
			t.Errorf("%x is read as %+v, which is %x", b, m, m.encode())
		}
	})
}

// arrivals counts exactly those that arrival says are due before.
func TestArrivals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.OneOf(rapid.Float64Range(0.001, maxRate), rapid.Just(3.0), rapid.Just(1000.0)).Draw(t, "rate")
		at := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "time"))
		n := arrivals(at, rate)
		must.Need(t, n <= 0 || arrival(n-1, rate) < at, "request %d is due at %v, not before %v", n-1, arrival(n-1, rate), at)
		must.Need(t, arrival(n, rate) >= at, "request %d is due at %v, before %v", n, arrival(n, rate), at)
	})
}

// What workers note while the sampler turns the epoch is neither lost nor
// counted twice.
func TestTurn(t *testing.T) {
	const each = 100_000
	var epoch atomic.Uint32
	meters := []*meter{{epoch: &epoch}, {epoch: &epoch}}
	left := make(chan struct{})
	for _, m := range meters {
		go func() {
			for i := range each {
				m.answer(time.Duration(1 + i%100))
			}
			left <- struct{}{}
		}()
	}
	var sum hist.Histogram
	turns := 0
	for running := len(meters); running > 0; turns++ {
		select {
		case <-left:
			running--
		default:
		}
		must.Do(t, sum.Merge(turn(&epoch, meters)))
	}
	must.Do(t, sum.Merge(turn(&epoch, meters)))
	got := sum.Count()
	must.True(t, got == 2*each && turns >= 2, "%d of %d in %d turns", got, 2*each, turns)
}

func TestQuantileCountsTheLost(t *testing.T) {
	var h hist.Recorder
	for i := range 90 {
		h.Record(time.Duration(i+1) * time.Millisecond)
	}
	for _, c := range []struct {
		q    float64
		sent int64
		want time.Duration // 0 is unknown
	}{
		{0.5, 90, 45 * time.Millisecond}, {0.5, 100, 50 * time.Millisecond}, {0.9, 100, 90 * time.Millisecond},
		{0.99, 100, 0}, {0.99, 90, 90 * time.Millisecond},
	} {
		got := quantile(h.Histogram(), c.q, c.sent).Or(0)
		must.True(t, got >= c.want*99/100 && got <= c.want*101/100, "quantile %v of 90 answered of %d is %v, want %v", c.q, c.sent, got, c.want)
	}
	v := quantile(new(hist.Histogram), 0.5, 3)
	must.True(t, !v.IsKnown(), "quantile of nothing is %v", v)
}

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
