//go:build slow && linux

package datagram

import (
	"fmt"
	"math"
	"testing"
	"time"

	"linerate/internal/core/hist"
	"linerate/internal/core/units"
	"linerate/internal/measure/enginetest"
)

// TestVethRates shows how many datagrams a second pass between two namespaces.
// What is lost was lost at the receiver.
func TestVethRates(t *testing.T) {
	w := enginetest.NewVeth(t, enginetest.Bucket{})
	for _, size := range []int{64, 1472} {
		for _, plain := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d/plain=%t", size, plain), func(t *testing.T) {
				a, b := w.ConnectedUDP()
				f := newFlow(t, a, b, Options{Plain: plain}, SenderOptions{Size: size}, limits{time: 2 * time.Second})
				took := f.run()
				if f.sendErr != nil || f.recvErr != nil {
					t.Fatalf("send: %v, receive: %v", f.sendErr, f.recvErr)
				}
				sent, came := float64(f.send.Sent.Load()), float64(f.tally.Received)
				t.Logf("%.0f kpps sent, %.0f kpps received, %.2f %% lost, of them %d pieces by the socket",
					sent/took.Seconds()/1e3, came/took.Seconds()/1e3, 100*(sent-came)/sent, f.b.Dropped().Or(0))
			})
		}
	}
}

// TestVethPacing holds 100 Mbit/s and 1 Gbit/s to 0.1 % over 10 s.
func TestVethPacing(t *testing.T) {
	w := enginetest.NewVeth(t, enginetest.Bucket{})
	for _, rate := range []units.BitRate{100e6, 1e9} {
		t.Run(rate.String(), func(t *testing.T) {
			const size, length = 1472, 10 * time.Second
			gap := size * 8 / float64(rate) * 1e9
			var off float64
			for range 3 {
				a, b := w.ConnectedUDP()
				gaps := new(hist.Histogram)
				f := newFlow(t, a, b, Options{Plain: true}, SenderOptions{Size: size, Gap: gap, Gaps: gaps},
					limits{time: length})
				f.run()
				want := length.Seconds() * float64(rate) / 8 / size
				sent := f.send.Sent.Load()
				off = math.Abs(float64(sent)-want) / want
				t.Logf("off by %.4f %%, lost %d, gaps of %.1f us: p1 %v, median %v, p99 %v, p99.9 %v, given up %d, jitter %v",
					100*off, sent-f.tally.Received, gap/1e3, gaps.Quantile(0.01).Or(0), gaps.Quantile(0.5).Or(0),
					gaps.Quantile(0.99).Or(0), gaps.Quantile(0.999).Or(0), f.send.Missed.Load(), f.tally.Jitter().Or(0))
				if off <= 0.001 {
					return
				}
			}
			if load := busy(); load != "" {
				t.Skipf("off by %.2f %% three times on a machine with load %s", 100*off, load)
			}
			t.Errorf("off by %.2f %%", 100*off)
		})
	}
}
