//go:build truth && linux

package datagram

import (
	"fmt"
	"net"
	"testing"
	"time"

	"linerate/internal/core/hist"
	"linerate/internal/core/units"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestVethRates measures how many datagrams a second pass between two namespaces. Any loss
// happens at the receiver.
func TestVethRates(t *testing.T) {
	w := enginetest.NewVeth(t, enginetest.Bucket{})
	for _, size := range []int{64, 1472} {
		for _, plain := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d/plain=%t", size, plain), func(t *testing.T) {
				a, b := w.ConnectedUDP()
				f := newFlow(t, a, b, Options{Plain: plain}, SenderOptions{Size: size}, limits{time: 2 * time.Second})
				took := f.run()
				must.Need(t, f.sendErr == nil && f.recvErr == nil, "send: %v, receive: %v", f.sendErr, f.recvErr)
				sent, came := float64(f.send.Sent.Load()), float64(f.tally.Received)
				t.Logf("%.0f kpps sent, %.0f kpps received, %.2f %% lost, of them %d pieces by the socket",
					sent/took.Seconds()/1e3, came/took.Seconds()/1e3, 100*(sent-came)/sent, f.b.Dropped().Or(0))
			})
		}
	}
}

// paced sends at rate from a to b, and claims that the mean is within 0.1 % of it.
func paced(try *truth.Try, a, b *net.UDPConn, o Options, rate units.BitRate, length time.Duration) {
	const size = 1472
	gap := size * 8 / float64(rate) * 1e9
	gaps := new(hist.Recorder)
	f := newFlow(try, a, b, o, SenderOptions{Size: size, Gap: gap, Gaps: gaps}, limits{time: length})
	f.run()
	must.Need(try, !f.send.Segmented() && f.send.Pacing() == "clock", "segmented %t, pacing %q", f.send.Segmented(), f.send.Pacing())
	want := length.Seconds() * float64(rate) / 8 / size
	try.Claim("sent", float64(f.send.Sent.Load()), 0.999*want, 1.001*want, "datagrams")
	// A late start is made good: then the other gaps are shorter.
	try.Claim("mean gap", gaps.Mean().Or(0).Seconds()*1e9, 0.995*gap, 1.005*gap, "ns")
}

// TestPacing holds 100 Mbit/s on loopback.
func TestPacing(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		a, b := loopback(try, "udp4")
		paced(try, a, b, Options{}, 100e6, 2*time.Second)
	})
}

// TestDeparturesKeepTheRate: 3000 datagrams with departure times leave in 0.3 s.
func TestDeparturesKeepTheRate(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		_, missed, took := departing(try)
		try.Claim("time", took.Seconds(), 0.298, 0.31, "s")
		try.Claim("given up", float64(missed), 0, 0, "datagrams")
	})
}

// TestVethPacing holds 100 Mbit/s and 1 Gbit/s between two namespaces.
func TestVethPacing(t *testing.T) {
	w := enginetest.NewVeth(t, enginetest.Bucket{})
	for _, rate := range []units.BitRate{100e6, 1e9} {
		t.Run(rate.String(), func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				a, b := w.ConnectedUDP()
				paced(try, a, b, Options{Plain: true}, rate, 5*time.Second)
			})
		})
	}
}
