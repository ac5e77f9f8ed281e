package hops

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestLoopback: where no router is on the way the peer answers at the first distance, before
// the load and under it, and large packets arrive.
func TestLoopback(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		taken := must.Get(net.ListenPacket("udp", net.JoinHostPort(host, "0")))(t)
		peer := taken.LocalAddr().(*net.UDPAddr).AddrPort()
		must.Do(t, taken.Close()) // nothing listens there
		c := Config{
			Direction: model.To, Local: netip.MustParseAddr(host), Peer: peer, Lead: 50 * time.Millisecond,
			Rate: func() float64 { return 0 }, Fail: func(err error) { t.Error(err) },
		}
		tracer := must.Get(Start(t.Context(), c))(t)
		rounds := func(p phase, n int) {
			for {
				tracer.mu.Lock()
				times := answered(tracer.hops[1].times[p])
				tracer.mu.Unlock()
				if times >= n {
					return
				}
				<-time.After(time.Millisecond)
			}
		}
		rounds(idle, 1)
		tracer.Quiet()
		tracer.Load()
		rounds(loaded, 1)
		trace := tracer.Report(t.Context())
		must.Need(t, len(trace.Hops) == 1 && trace.Why == "", "%s: %+v", host, trace)
		h := trace.Hops[0]
		must.True(t, h.Arrived && h.Address == host && h.TTL == 1, "%s: %+v", host, h)
		sizes := must.Get(Sizes(t.Context(), c, 1400))(t)
		must.Need(t, len(sizes.Hops) == 1, "%s: %+v", host, sizes)
		small := answered(sizes.Hops[0].Idle)
		large := answered(sizes.Hops[0].Loaded)
		must.True(t, small > 0 && large > 0, "%s: sizes %+v", host, sizes)
	}
}

// answered is how many rounds were answered.
func answered(rounds []time.Duration) int {
	return len(slices.DeleteFunc(slices.Clone(rounds), func(d time.Duration) bool { return d == 0 }))
}
