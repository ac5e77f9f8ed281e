package peer

import (
	"net/netip"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/iperf2"
	"linerate/internal/must"
)

// wary is a server that believes the sender of no datagram.
func wary(t testing.TB) *ownServer {
	return startServer(t, ServerConfig{Idle: time.Second, UDPTo: func(netip.Addr) bool { return false }})
}

// TestProofByTCP: payload goes to where a TCP connection came from, and nowhere
// else. linerate's own client makes one.
func TestProofByTCP(t *testing.T) {
	s := wary(t)
	c := dialUDP(t, s.addr)
	for _, m := range []iperf2.Mode{iperf2.Reverse, iperf2.FullDuplex, iperf2.Dual} {
		must.Get(c.Write(datagramOf(m, 1)))(t)
		got := answered(t, c, atOnce)
		must.True(t, got == nil, "%s: %d bytes came back", m, len(got))
	}
	for _, d := range []model.Direction{model.From, model.Both} {
		f := model.Flow{Direction: d, Duration: 200 * time.Millisecond, Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: gentle})}
		near, _, err := Client{}.Run(t.Context(), s.addr, f, nil)
		must.Dof(t, err, "%s", d)
		got := false
		for _, r := range near.Flows {
			got = got || r.Direction == model.From && r.Bytes > 0
		}
		must.True(t, got, "%s: %+v", d, near)
	}
}

// TestSmallFinals: a sender that may be forged gets no more than three times what
// it sent, however small its final datagrams are.
func TestSmallFinals(t *testing.T) {
	s := wary(t)
	c := dialUDP(t, s.addr)
	sent, got := 0, 0
	send := func(b []byte) {
		n := must.Get(c.Write(b))(t)
		sent += n
	}
	send(datagramOf(iperf2.Forward, 1)[:minDatagram])
	for i := range int64(3 * mostAcks) {
		send(datagramOf(iperf2.Forward, -2-i)[:16])
		if i%10 == 0 {
			for b := answered(t, c, atOnce); b != nil; b = answered(t, c, atOnce) {
				got += len(b)
			}
		}
		must.Need(t, got <= mostAnswer*sent, "%d bytes for %d", got, sent)
	}
	must.True(t, got != 0, "no report at all")
}

// TestProofsAreBounded: anonymous clients fill the list, and nobody is kept out.
func TestProofsAreBounded(t *testing.T) {
	var p proofs
	a := netip.MustParseAddr("2001:db8::")
	for range 2 * mostProven {
		a = a.Next()
		p.note(a)
		must.Need(t, p.has(a), "%v", a)
	}
	must.True(t, len(p.came) <= mostProven && !p.has(netip.MustParseAddr("192.0.2.1")), "%d proven", len(p.came))
	p.came[a] = time.Now().Add(-2 * proofTime)
	must.True(t, !p.has(a), "for ever")
}
