package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Full names the full link of a case with routers. Nodes are counted from the sender, which is
// 0, to the receiver, which is the last.
type Full struct {
	Direction model.Direction `json:"direction"`
	// None is true if the limit is no link on the path.
	None bool `json:"none,omitempty"`
	// At is the node that sends into the full link.
	At int `json:"at"`
	// Before and Behind are the nearest nodes on either side of it whose answers show it.
	Before  int `json:"before"`
	Behind  int `json:"behind"`
	Routers int `json:"routers"`
}

// RouterKind is a kind of path with routers. Draw never returns one.
type RouterKind struct {
	Name  string
	Says  string
	plant func(*routed) bool
}

// mostRouters is the limit of a case, and leastRate that of its slowest link.
const (
	mostRouters = 6
	leastRate   = units.BitRate(2e6)
)

// routerStream separates the draws of paths with routers from others.
const routerStream = 4

// routed is a case with routers under construction: counted from the sender, link i leaves node
// i.
type routed struct {
	rng    *rand.Rand
	way    model.Direction
	trip   time.Duration
	fast   units.BitRate
	rates  []units.BitRate // of the links
	queues []units.Bytes
	deaf   map[int]bool // routers whose answers say nothing
	icmp   string       // ICMP error limit of each router
	keys   []string
	full   Full
	whole  bool // a full check is needed
}

// RouterKinds lists the kinds in the order of their seeds.
func RouterKinds() []RouterKind {
	return []RouterKind{
		{"link-first", "the sender's own link is slower than all others", func(r *routed) bool { r.slow(0); return true }},
		{"link-middle", "a link between two routers is slower than all others", func(r *routed) bool {
			if r.last() < 2 {
				return false
			}
			r.slow(1 + r.rng.IntN(r.last()-1))
			return true
		}},
		{"link-last", "the receiver's link is slower than all others", func(r *routed) bool { r.slow(r.last()); return true }},
		{"link-two", "a link, and another one that is 5 to 30 % faster", func(r *routed) bool {
			at := r.rng.Perm(len(r.rates))
			rate := r.slow(at[0])
			r.link(at[1], units.BitRate(round(float64(rate)*r.between(1.05, 1.3))))
			return true
		}},
		{"link-silent", "a slow link, and routers that send no ICMP errors", func(r *routed) bool {
			for _, i := range r.rng.Perm(r.last())[:1+r.rng.IntN(max(1, r.last()/2))] {
				r.deaf[i+1] = true
				r.router(i+1, "silent")
			}
			r.slow(r.rng.IntN(len(r.rates)))
			return len(r.deaf) < r.last()
		}},
		{"link-icmp", "a slow link, and routers that send one ICMP error a second", func(r *routed) bool {
			r.icmp, r.whole = "1/s", true
			r.slow(r.rng.IntN(len(r.rates)))
			return true
		}},
		{"link-late", "a slow link, and a router that answers up to 1 to 30 ms late by itself", func(r *routed) bool {
			i := 1 + r.rng.IntN(r.last())
			r.deaf[i] = true
			r.router(i, "late=%s", time.Duration(r.between(1, 30)*1e6).Round(time.Microsecond))
			r.slow(r.rng.IntN(len(r.rates)))
			return r.last() > 1
		}},
		{"link-bundle", "a slow link, and a bundle of two to four links that addresses and ports choose", func(r *routed) bool {
			if r.way != model.To || r.last() < 2 {
				return false // a bundle leaves a router towards the far host, and does not end there
			}
			r.router(1+r.rng.IntN(r.last()-1), "ecmp=%d", 2+r.rng.IntN(3))
			r.slow(r.rng.IntN(len(r.rates)))
			return true
		}},
		{"no-link-window", "a small receive or send buffer", func(r *routed) bool {
			r.full.None = true
			buffer := units.Bytes(1 << (15 + r.rng.IntN(4)))
			end, knob := r.way.Receiver(), "tcp.recv_buffer_max"
			if r.rng.IntN(2) == 0 {
				end, knob = r.way.Sender(), "tcp.send_buffer_max"
			}
			r.keys = append(r.keys, fmt.Sprintf("%s=%d", end.Of(model.KnobID(knob)), buffer))
			bound := limits.WindowBound(buffer, r.trip)
			return bound >= leastRate && float64(bound) <= bites*float64(r.fast)
		}},
		{"no-link-policer", "a policer in front of a link", func(r *routed) bool {
			r.full.None, r.whole = true, true
			r.keys = append(r.keys, fmt.Sprintf("%spolice=%.0fbit", r.prefix(r.rng.IntN(len(r.rates))), float64(r.slowRate())))
			return true
		}},
	}
}

// last returns the index of the link to the receiver, which is the number of routers.
func (r *routed) last() int { return len(r.rates) - 1 }

func (r *routed) between(low, high float64) float64 { return (&draw{rng: r.rng}).between(low, high) }

// slowRate draws the rate of a slow link.
func (r *routed) slowRate() units.BitRate {
	return max(leastRate, units.BitRate(round(float64(r.fast)*r.between(0.1, bites))))
}

// slow makes link i the slow one, and returns its rate.
func (r *routed) slow(i int) units.BitRate {
	r.full.At = i
	rate := r.slowRate()
	r.link(i, rate)
	return rate
}

// link gives link i a rate, and a queue in which packets can wait for 5 to 60 ms, and at least
// for a round trip: Reno leaves a link idle with a shorter queue.
func (r *routed) link(i int, rate units.BitRate) {
	r.rates[i] = rate
	r.queues[i] = max(20*1514, units.Bytes(float64(rate)/8*max(r.trip.Seconds(), r.between(0.005, 0.06))))
}

// prefix returns the prefix of the keys of link i.
func (r *routed) prefix(i int) string {
	switch {
	case i == 0:
		return wire(r.way)
	case r.way == model.From:
		return fmt.Sprintf("%shop%d.", wire(r.way), len(r.rates)-i)
	}
	return fmt.Sprintf("hop%d.", i)
}

// router adds a key of router i, counted from the sender.
func (r *routed) router(i int, format string, args ...any) {
	if r.way == model.From {
		i = len(r.rates) - i
	}
	r.keys = append(r.keys, fmt.Sprintf("hop%d.", i)+fmt.Sprintf(format, args...))
}

// OfRouters returns the case of a kind of RouterKinds for a seed; "" selects the kind by the
// seed's number.
func OfRouters(name string, seed uint64) (Case, bool) {
	all := RouterKinds()
	if name == "" {
		name = all[seed%uint64(len(all))].Name
	}
	i := slices.IndexFunc(all, func(k RouterKind) bool { return k.Name == name })
	if i < 0 {
		return Case{}, false
	}
	rng := source(seed, routerStream)
	for range tries {
		if r := newRouted(rng); all[i].plant(r) {
			return r.finish(seed, name), true
		}
	}
	return Case{}, false
}

// newRouted draws a path of equally fast links.
func newRouted(rng *rand.Rand) *routed {
	r := &routed{rng: rng, deaf: map[int]bool{}, way: []model.Direction{model.To, model.From}[rng.IntN(2)]}
	links := 2 + rng.IntN(mostRouters)
	r.trip = time.Duration(round(r.between(1e6, 40e6))).Round(time.Microsecond)
	r.fast = units.BitRate(round(r.between(20e6, float64(packetRate(1500))/float64(links))))
	for range links {
		r.rates, r.queues = append(r.rates, r.fast), append(r.queues, kindQueue(r.fast, r.trip, 1500))
	}
	r.icmp = []string{"20/s", "unlimited"}[rng.IntN(2)]
	if rng.IntN(2) == 0 { // otherwise the default of the judge's machine, bbr
		r.keys = append(r.keys, fmt.Sprintf("%s=reno", r.way.Sender().Of(congestion)))
	}
	return r
}

// finish converts it to a case.
func (r *routed) finish(seed uint64, kind string) Case {
	back := opposite(r.way)
	keys := []string{
		fmt.Sprintf("hops=%d,rtt=%s,seed=%d", r.last(), r.trip, seed+1),
		fmt.Sprintf("%srate=%.0fbit,%[1]squeue=%[3]d", wire(back), float64(r.fast), kindQueue(r.fast, r.trip, 1500)),
	}
	for i, rate := range r.rates {
		keys = append(keys, fmt.Sprintf("%srate=%.0fbit,%[1]squeue=%[3]d", r.prefix(i), float64(rate), r.queues[i]))
	}
	for i := range r.last() {
		keys = append(keys, fmt.Sprintf("hop%d.icmp=%s", i+1, r.icmp))
	}
	f := r.full
	f.Direction, f.Routers, f.Before, f.Behind = r.way, r.last(), f.At, f.At+1
	for f.Before > 0 && r.deaf[f.Before] {
		f.Before--
	}
	for f.Behind < len(r.rates) && r.deaf[f.Behind] {
		f.Behind++
	}
	return Case{
		Seed: seed, Kind: kind, Clean: f.None, Rate: slices.Min(r.rates), Trip: r.trip, Check: true, Full: r.whole, Located: &f,
		Spec: strings.Join(append(keys, r.keys...), ","), Args: []string{"--wait", "0s"},
	}
}
