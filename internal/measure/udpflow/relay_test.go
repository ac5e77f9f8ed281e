package udpflow

import (
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// relay forwards between two sockets, changes the data as fate says, and keeps count.
type relay struct {
	fate func(i int) (copies, late int) // of data datagram i; late by that many others
	deaf bool                           // nothing goes back
	mute bool                           // ends are lost

	mu      sync.Mutex
	passed  []header // in the order in which they went on
	dropped int64    // in the window
	held    []holding
	count   int
}

// holding is a datagram that waits until that many others have passed.
type holding struct {
	until int
	b     []byte
}

func (r *relay) between(t testing.TB) func(near, far *net.UDPConn) {
	return func(near, far *net.UDPConn) {
		var running sync.WaitGroup
		for _, c := range []*net.UDPConn{near, far} {
			// Losses here must all be in the relay's counts.
			must.Do(t, c.SetReadBuffer(4<<20))
		}
		running.Go(func() { copyDatagrams(near, func(b []byte) { r.forward(far, b) }) })
		running.Go(func() {
			copyDatagrams(far, func(b []byte) {
				if !r.deaf {
					_, _ = near.Write(b)
				}
			})
		})
		t.Cleanup(func() {
			near.Close()
			far.Close()
			running.Wait()
		})
	}
}

// copyDatagrams passes what c receives to f until it is closed.
func copyDatagrams(c *net.UDPConn, f func([]byte)) {
	b := make([]byte, 1<<16)
	for {
		n, err := c.Read(b)
		switch {
		case err == nil:
			f(b[:n])
		case errors.Is(err, net.ErrClosed):
			return
		}
	}
}

// forward applies fate to one datagram of the sender.
func (r *relay) forward(far *net.UDPConn, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, ok := parseHeader(b)
	if !ok || h.kind == ending {
		if !r.mute {
			_, _ = far.Write(b)
		}
		return
	}
	copies, late := r.fate(r.count)
	r.count++
	if copies == 0 && h.kind == inside {
		r.dropped++
	}
	for range copies {
		if late > 0 {
			r.held = append(r.held, holding{r.count + late, slices.Clone(b)})
		} else {
			r.pass(far, b)
		}
	}
	r.held = slices.DeleteFunc(r.held, func(o holding) bool {
		if o.until > r.count {
			return false
		}
		r.pass(far, o.b)
		return true
	})
}

func (r *relay) pass(far *net.UDPConn, b []byte) {
	h, _ := parseHeader(b)
	r.passed = append(r.passed, h)
	_, _ = far.Write(b)
}

// truth returns what the receiver should find.
func (r *relay) truth() model.UDPSummary {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := model.UDPSummary{Lost: r.dropped}
	for _, o := range r.held {
		if h, _ := parseHeader(o.b); h.kind == inside {
			out.Lost++ // never forwarded
		}
	}
	var came []int64
	seen := map[int64]bool{}
	next := int64(0)
	for _, h := range r.passed {
		if seen[h.seq] {
			if h.kind == inside {
				out.Duplicates++
			}
			continue
		}
		seen[h.seq] = true
		if h.kind == inside {
			out.Received++
			if h.seq < next {
				out.Reordered++
				j := slices.IndexFunc(came, func(s int64) bool { return s > h.seq })
				out.MaxExtent = max(out.MaxExtent, int64(len(came)-j))
			}
		}
		next = max(next, h.seq+1)
		came = append(came, h.seq)
	}
	return out
}

// checkTruth compares a receiver's counts with the relay's.
func checkTruth(t *testing.T, got *model.UDPSummary, want model.UDPSummary) {
	t.Helper()
	if got.Received != want.Received || got.Lost != want.Lost || got.Duplicates != want.Duplicates ||
		got.Reordered != want.Reordered || got.MaxExtent != want.MaxExtent {
		t.Errorf("received %d of %d, lost %d of %d, duplicates %d of %d, reordered %d of %d, extent %d of %d",
			got.Received, want.Received, got.Lost, want.Lost, got.Duplicates, want.Duplicates,
			got.Reordered, want.Reordered, got.MaxExtent, want.MaxExtent)
	}
}

func TestKnownTruth(t *testing.T) {
	fates := map[string]func(i int) (copies, late int){
		"nothing":    func(int) (int, int) { return 1, 0 },
		"loss":       func(i int) (int, int) { return min(1, i%7), 0 },
		"duplicates": func(i int) (int, int) { return 1 + max(0, i%11-9), 0 },
		"reordering": func(i int) (int, int) { return 1, max(0, i%13-8) },
		"all": func(i int) (int, int) {
			return min(1, i%7) + max(0, i%11-9), max(0, i%13-8)
		},
	}
	for name, e := range everyWay() {
		for what, fate := range fates {
			t.Run(name+"/"+what, func(t *testing.T) {
				r := &relay{fate: fate}
				w := enginetest.NewWire(t)
				w.RelayUDP = r.between(t)
				f := timed(model.To)
				f.Block = 200
				near, far := enginetest.Prepare(t, e, w, f)
				enginetest.Succeed(t, near, far, model.To)
				send, receive := near.Flow(t, model.To), far.Flow(t, model.To)
				checkBooks(t, send, receive)
				want := r.truth()
				checkTruth(t, receive.UDP, want)
				must.True(t, what != "all" || want.Lost != 0 && want.Duplicates != 0 && want.Reordered != 0, "the relay did nothing: %+v", want)
			})
		}
	}
}

// TestDeafSender gets no answer: it ends when the session stops it, and the receiver knows
// everything.
func TestDeafSender(t *testing.T) {
	r := &relay{fate: func(int) (int, int) { return 1, 0 }, deaf: true}
	w := enginetest.NewWire(t)
	w.RelayUDP = r.between(t)
	near, far := enginetest.Prepare(t, New(), w, timed(model.To))
	enginetest.Succeed(t, near, far, model.To)
	checkBooks(t, near.Flow(t, model.To), far.Flow(t, model.To))
	checkTruth(t, far.Flow(t, model.To).UDP, r.truth())
}

// TestEndsLost never receives the sender's counts: what is missing between the first and the
// last arrival is known all the same.
func TestEndsLost(t *testing.T) {
	r := &relay{fate: func(i int) (int, int) { return min(1, i%5), 0 }, mute: true}
	w := enginetest.NewWire(t)
	w.RelayUDP = r.between(t)
	e := New()
	e.bounds.linger = 300 * time.Millisecond
	near, far := enginetest.Prepare(t, e, w, timed(model.To))
	enginetest.Succeed(t, near, far, model.To)
	got, want := far.Flow(t, model.To).UDP, r.truth()
	must.True(t, got.Received == want.Received && got.Lost <= want.Lost && got.Lost >= want.Lost-2,
		"received %d of %d, lost %d of %d", got.Received, want.Received, got.Lost, want.Lost)
	must.True(t, warned(far, "count of 1 streams never came"), "warnings %q", far.Report.Warnings)
}

// TestCutWithinTheWindow loses everything from the middle on except the ends.
func TestCutWithinTheWindow(t *testing.T) {
	r := &relay{fate: func(i int) (int, int) {
		if i < 200 {
			return 1, 0
		}
		return 0, 0
	}}
	w := enginetest.NewWire(t)
	w.RelayUDP = r.between(t)
	near, far := enginetest.Prepare(t, New(), w, timed(model.To))
	enginetest.Succeed(t, near, far, model.To)
	checkBooks(t, near.Flow(t, model.To), far.Flow(t, model.To))
	checkTruth(t, far.Flow(t, model.To).UDP, r.truth())
}
