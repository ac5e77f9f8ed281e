package peer

import (
	"net/netip"
	"sync"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestSampled: while a real client measures, its server tells the rate of each
// direction, and whose test it is.
func TestSampled(t *testing.T) {
	var mu sync.Mutex
	rates := map[model.Metric]int{}
	remotes := map[netip.AddrPort]bool{}
	e := newEvents()
	addr := serveHere(t, ServerConfig{Event: e.add, Sampled: func(remote netip.AddrPort, all []model.Sample) {
		mu.Lock()
		defer mu.Unlock()
		remotes[remote] = true
		for _, s := range all {
			if s.Of == "" && s.Value > 0 {
				rates[s.Metric]++
			}
		}
	}})
	s := foreignClient(t, addr, "-t 3 --bidir -b 20M")
	must.Need(t, s.Error == "", "%v", s.Error)
	end := e.ended(t)
	mu.Lock()
	defer mu.Unlock()
	must.True(t, rates[model.Goodput] >= 2 && rates[model.Sent] >= 2, "in 3 s the server told %v", rates)
	must.True(t, len(remotes) == 1 && remotes[netip.MustParseAddrPort(end.Remote)], "of %v, and the client is %s", remotes, end.Remote)
}
