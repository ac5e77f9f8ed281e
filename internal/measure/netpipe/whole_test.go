package netpipe

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// slowest is how long a test with s takes over a path of that rate, bit/s, and
// latency, one way, by its own schedule.
func slowest(t *testing.T, s Settings, rate, latency float64) time.Duration {
	t.Helper()
	c := must.Get(NewSchedule(s))(t)
	whole, last := 0.0, latency
	for {
		p, more := c.Next(last)
		if !more {
			return time.Duration(whole * float64(time.Second))
		}
		repeats := s.Repeats(p, last)
		last = latency + float64(p.Bytes)*8/rate
		whole += float64(s.Trials()*repeats) * 2 * last
	}
}

// TestWholeIsEnough: no honest path needs more than a test may take, and none with a
// round trip of up to 0.6 s half of it.
func TestWholeIsEnough(t *testing.T) {
	for _, s := range []Settings{{Start: 1, Upper: 8 << 20, Perturbation: 3}, {Start: 1, Upper: 8 << 20, Perturbation: 3, Final: true}, {Start: 1, Upper: 1 << 20, Perturbation: 100, Integrity: true}} {
		for _, rate := range []float64{1e3, 1e4, 1e5, 1e6, 1e7, 1e8} {
			for _, latency := range []float64{1e-5, 1e-3, 0.1, 0.3, 0.9} {
				took, most := slowest(t, s, rate, latency), New().bounds.wholeOf(s)
				must.True(t, took <= most && (latency > 0.3 || 2*took <= most), "%+v at %g bit/s and %g s: %v of %v", s, rate, latency, took, most)
			}
		}
	}
}

// TestReceiverThatDrips: one that answers each message just before it is given up
// holds the transmitter no longer than a whole test may take.
func TestReceiverThatDrips(t *testing.T) {
	p := quick()
	p.bounds.trial, p.bounds.whole = time.Minute, 500*time.Millisecond
	port := badReceiver(t, func(c net.Conn) {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, err := c.Write([]byte("SyncMe"))
		for err == nil {
			select {
			case <-tick.C:
			case <-t.Context().Done():
				return
			}
			_, err = c.Write([]byte("a"))
		}
	})
	began := time.Now()
	_, err := p.Transmit(context.Background(), dialer(port), Options{Settings: tiny()}, func(model.Point) {})
	took := time.Since(began)
	must.True(t, took <= 5*time.Second && errors.Is(err, errWhole), "%v after %v", err, took)
}
