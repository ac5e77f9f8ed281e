package peer

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/program"
	"linerate/internal/must"
)

// TestGathering: connections that begin together are one test with the sum of their
// streams, whatever the client says of their number, and others are others.
func TestGathering(t *testing.T) {
	at := func(host string, port uint16) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr(host), port)
	}
	result := func(from netip.AddrPort, threads int) Result {
		return Result{Peer: from, Threads: threads, Took: time.Second, Report: model.EndReport{Host: model.Far, Flows: []model.FlowReport{
			{Direction: model.To, Role: model.Receiver, Bytes: 100, Window: time.Second},
		}}}
	}
	reversed := func(r Result) Result { r.Mode = iperf2.Reverse; return r }
	failed := func(r Result) Result { r.Err = errors.New("cut"); return r }
	for name, c := range map[string]struct {
		results []Result
		apart   time.Duration // between the beginnings
		serial  bool          // each ends before the next begins
		kept    []int         // streams of each test
		failed  bool
	}{
		"one":            {[]Result{result(at("10.0.0.1", 1), 1)}, 0, false, []int{1}, false},
		"-P 3, told":     {[]Result{result(at("10.0.0.1", 1), 3), result(at("10.0.0.1", 2), 3), result(at("10.0.0.1", 3), 3)}, 0, true, []int{3}, false},
		"-P 3, not told": {[]Result{result(at("10.0.0.1", 1), 0), result(at("10.0.0.1", 2), 0), result(at("10.0.0.1", 3), 0)}, 10 * time.Millisecond, false, []int{3}, false},
		"one after the other": {
			[]Result{result(at("10.0.0.1", 1), 1), result(at("10.0.0.1", 2), 1)}, 0, true, []int{1, 1}, false,
		},
		"two hosts":       {[]Result{result(at("10.0.0.1", 1), 0), result(at("10.0.0.2", 1), 0)}, 0, false, []int{1, 1}, false},
		"two modes":       {[]Result{result(at("10.0.0.1", 1), 0), reversed(result(at("10.0.0.1", 2), 0))}, 0, false, []int{1, 1}, false},
		"a later one":     {[]Result{result(at("10.0.0.1", 1), 0), result(at("10.0.0.1", 2), 0)}, startsWithin + time.Second, false, []int{1, 1}, false},
		"one of two cut":  {[]Result{result(at("10.0.0.1", 1), 2), failed(result(at("10.0.0.1", 2), 2))}, 0, false, []int{2}, true},
		"a sister missed": {[]Result{result(at("10.0.0.1", 1), 4)}, 0, false, []int{1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var kept []program.Test
				g := newGathering(func(one program.Test) { kept = append(kept, one) })
				for i, r := range c.results {
					if i > 0 {
						time.Sleep(c.apart)
					}
					g.begun(Result{Peer: r.Peer, Mode: r.Mode, Threads: r.Threads})
					if c.serial {
						g.done(r)
					}
				}
				for _, r := range c.results {
					if !c.serial {
						g.done(r)
					}
				}
				g.done(Result{Peer: at("10.0.0.9", 9), Refused: true, Err: errors.New("no")})
				time.Sleep(2 * sistersCome)
				synctest.Wait()
				g.end()
				must.Need(t, len(kept) == len(c.kept), "%d tests, want %d: %+v", len(kept), len(c.kept), kept)
				for i, one := range kept {
					if f := one.Ends[0].Flows[0]; one.Flow.Streams != c.kept[i] || int(f.Bytes) != 100*c.kept[i] || (one.Err != nil) != c.failed {
						t.Errorf("%d streams of %d bytes, %v; want %d", one.Flow.Streams, f.Bytes, one.Err, c.kept[i])
					}
				}
				must.True(t, len(g.tests)+len(g.by) == 0, "left: %v, %v", g.tests, g.by)
			})
		})
	}
}
