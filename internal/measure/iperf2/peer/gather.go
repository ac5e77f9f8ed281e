package peer

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/program"
)

// A test with -P opens separate connections, and not every client sends their number.
// Connections of one address and one kind that begin within startsWithin of the first are one
// test. A finished test waits sistersCome for connections that have not begun.
const (
	startsWithin = 2 * time.Second
	sistersCome  = 300 * time.Millisecond
)

// kindred is what the connections of one test have in common.
type kindred struct {
	from        netip.Addr
	mode        iperf2.Mode
	udp, bounce bool
}

// gathering groups connections and flows into tests. It is safe for concurrent use.
type gathering struct {
	keep func(program.Test)

	mu    sync.Mutex
	tests map[kindred]*gathered // that may still grow
	by    map[netip.AddrPort]*gathered
}

// gathered is one test so far.
type gathered struct {
	kindred
	first   time.Time
	threads int // according to the client; 0 is unknown
	begun   int
	open    int
	results []Result
	waits   *time.Timer // for further connections; nil while some are open
}

func newGathering(keep func(program.Test)) *gathering {
	return &gathering{keep: keep, tests: map[kindred]*gathered{}, by: map[netip.AddrPort]*gathered{}}
}

// begun records a new session.
func (g *gathering) begun(r Result) {
	kin := kindred{source(r.Peer.Addr()), r.Mode, r.UDP, r.Bounce}
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tests[kin]
	if t == nil || time.Since(t.first) > startsWithin || t.complete() {
		t = &gathered{kindred: kin, first: time.Now(), threads: r.Threads}
		g.tests[kin] = t
	}
	if t.waits != nil {
		t.waits.Stop()
		t.waits = nil
	}
	t.begun++
	t.open++
	g.by[r.Peer] = t
}

// complete reports whether as many connections have begun as the client announced.
func (t *gathered) complete() bool { return t.threads > 0 && t.begun >= t.threads }

// done reports the test once r completes it. A refused connection belongs to no test.
func (g *gathering) done(r Result) {
	g.mu.Lock()
	t := g.by[r.Peer]
	if t == nil || r.Refused {
		g.mu.Unlock()
		return
	}
	delete(g.by, r.Peer)
	t.results = append(t.results, r)
	t.open--
	over := t.open == 0
	if over && !t.complete() {
		over = false
		var timer *time.Timer
		timer = time.AfterFunc(sistersCome, func() {
			g.mu.Lock()
			mine := t.waits == timer
			if mine {
				g.forget(t)
			}
			g.mu.Unlock()
			if mine {
				g.keep(t.whole())
			}
		})
		t.waits = timer
	}
	if over {
		g.forget(t)
	}
	g.mu.Unlock()
	if over {
		g.keep(t.whole())
	}
}

func (g *gathering) forget(t *gathered) {
	t.waits = nil
	if g.tests[t.kindred] == t {
		delete(g.tests, t.kindred)
	}
}

// end reports the tests that still wait for further connections.
func (g *gathering) end() {
	g.mu.Lock()
	var left []*gathered
	for _, t := range g.tests {
		if t.waits != nil {
			t.waits.Stop()
			left = append(left, t)
		}
	}
	for _, t := range left {
		g.forget(t)
	}
	g.mu.Unlock()
	for _, t := range left {
		g.keep(t.whole())
	}
}

// whole combines the results into one test.
func (t *gathered) whole() program.Test {
	all := t.results[0].test()
	for _, r := range t.results[1:] {
		one := r.test()
		all.Took, all.Err = max(all.Took, one.Took), errors.Join(all.Err, one.Err)
		for _, e := range one.Ends {
			if len(all.Ends) == 0 {
				all.Ends = []model.EndReport{{Host: e.Host}}
			}
			all.Ends[0].Flows = joined(all.Ends[0].Flows, e.Flows)
			all.Ends[0].Values = append(all.Ends[0].Values, e.Values...)
			all.Ends[0].Warnings = lists.Once(all.Ends[0].Warnings, e.Warnings...)
		}
	}
	all.Flow.Streams = len(t.results)
	return all
}

// joined adds the streams of more to the directions of flows.
func joined(flows, more []model.FlowReport) []model.FlowReport {
	for _, m := range more {
		i := slices.IndexFunc(flows, func(f model.FlowReport) bool { return f.Direction == m.Direction && f.Role == m.Role })
		if i < 0 {
			flows = append(flows, m)
			continue
		}
		f := &flows[i]
		f.Bytes, f.Window = f.Bytes+m.Bytes, max(f.Window, m.Window)
		f.Streams = append(slices.Clone(f.Streams), m.Streams...)
		f.TCP = nil // covers one connection only
		if f.UDP != nil && m.UDP != nil {
			f.UDP = joinedUDP(*f.UDP, *m.UDP)
		}
	}
	return flows
}

func joinedUDP(a, b model.UDPSummary) *model.UDPSummary {
	a.Received, a.Lost, a.Duplicates = a.Received+b.Received, a.Lost+b.Lost, a.Duplicates+b.Duplicates
	a.Reordered, a.MaxExtent = a.Reordered+b.Reordered, max(a.MaxExtent, b.MaxExtent)
	a.Sent, a.Refused = a.Sent+b.Sent, a.Refused+b.Refused
	x, ok1 := a.Jitter.Get()
	y, ok2 := b.Jitter.Get()
	switch {
	case ok1 && ok2:
		a.Jitter = fact.Known(max(x, y), "the largest of the flows")
	case ok2:
		a.Jitter = b.Jitter
	}
	if a.Variation != nil && b.Variation != nil {
		_ = a.Variation.Merge(b.Variation) // all these histograms have the same buckets
	}
	return &a
}
