package lab

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/lab/wire"
)

// Limits of the routers. Each link costs two threads, a bundle two for each member.
const (
	maxHops    = 8
	maxMembers = 4
	maxErrors  = 100 // ICMP errors a second: above it they are closer together than a tick of the kernel's clock
)

// unlimited is the ICMP error limit of a router without one.
const unlimited = -1

// Hop is a router on the path, and the links that leave it.
type Hop struct {
	// To is the link to the far host, From the one to the near host. A rate or queue of 0 is
	// that of the whole path. The delay is added to the link's share of the path's delay.
	To      wire.Path    `json:"to"`
	From    wire.Path    `json:"from"`
	ToMTU   int          `json:"to_mtu,omitempty"`   // IP bytes of the largest packet the router sends to the far host; 0 is the lab's MTU
	FromMTU int          `json:"from_mtu,omitempty"` // and to the near host
	Answers wire.Answers `json:"answers,omitzero"`   // its own ICMP errors
	ICMP    int          `json:"icmp,omitempty"`     // ICMP errors a second to one address; 0 is the kernel's limit, -1 no limit
	Members int          `json:"members,omitempty"`  // of the link to the far host, which is a bundle if 2 or more
}

// cable is one link of the path, or one member of a bundle.
type cable struct {
	at          int // number of routers between it and the near host
	number      int // used in its addresses and interface names
	to, from    wire.Path
	leave, back wire.Answers // of the router that sends into it, in direction to and from
}

// firstMember is the number of a bundle's first cable besides the link itself.
const firstMember = 100

// cables returns the links of the path from the near host on, each before the further members
// of its bundle, which carry only traffic to the far host.
func (s Spec) cables() []cable {
	var out []cable
	n := len(s.Hops)
	for i := range n + 1 {
		c := cable{at: i, number: i, to: section(s.To, i, n+1), from: section(s.From, n-i, n+1)}
		if i < n {
			c.from, c.back = alone(s.Hops[i].From, c.from), s.Hops[i].Answers
		}
		if i == 0 {
			out = append(out, c)
			continue
		}
		h := s.Hops[i-1]
		c.to, c.leave = alone(h.To, c.to), h.Answers
		out = append(out, c)
		for m := range h.Members - 1 {
			out = append(out, cable{at: i, number: firstMember + maxMembers*i + m, to: c.to, leave: c.leave})
		}
	}
	return out
}

// section returns the part of the whole path for link i of n, counted from the sender: every
// link has its rate and queue, the delay is divided, and the rest is at the first.
func section(whole wire.Path, i, n int) wire.Path {
	until := func(i int) time.Duration { return whole.Delay * time.Duration(i) / time.Duration(n) }
	share := until(i+1) - until(i)
	if i > 0 {
		return wire.Path{Rate: whole.Rate, Queue: whole.Queue, Delay: share}
	}
	whole.Delay = share
	return whole
}

// alone combines a link's own settings with its section of the whole path.
func alone(own, section wire.Path) wire.Path {
	own.Rate, own.Queue = cmp.Or(own.Rate, section.Rate), cmp.Or(own.Queue, section.Queue)
	own.Delay += section.Delay
	return own
}

// emulated reports whether a wire must move the cable's frames. Cables at the hosts always
// count them; between routers a cable may have nothing to emulate.
func (c cable) emulated(routers int) bool {
	return c.at == 0 || c.at == routers || c != cable{at: c.at, number: c.number}
}

// hopPrefix is the prefix of a router's keys: hop2.rate.
const hopPrefix = "hop"

// isHop reports whether a key without its direction belongs to a router.
func isHop(key string) bool {
	before, _, dotted := strings.Cut(key, ".")
	return dotted && strings.HasPrefix(before, hopPrefix)
}

// setHop applies a key of a router. name is the key without its direction, which is from if
// back is true.
func (p *parser) setHop(key, name, value string, back bool) {
	number, name, _ := strings.Cut(strings.TrimPrefix(name, hopPrefix), ".")
	k, err := strconv.Atoi(number)
	switch n := len(p.spec.Hops); {
	case err != nil:
		p.fault("%s: write hop and the number of a router, as in hop2.rate", key)
		return
	case n == 0:
		p.fault("%s: there are no routers: give hops= as well", key)
		return
	case k < 1 || k > n:
		p.fault("%s: there is no router %d: hops=%d makes hop1 to hop%d", key, k, n, n)
		return
	}
	h := &p.spec.Hops[k-1]
	path, mtu := &h.To, &h.ToMTU
	if back {
		path, mtu = &h.From, &h.FromMTU
	}
	switch name {
	case "mtu":
		*mtu = p.number(key, value, minMTU, maxMTU)
		return
	case "silent", "late", "icmp", "ecmp":
		if back {
			p.fault("%s: belongs to the router, not to a direction: use hop%d.%s", key, k, name)
			return
		}
	default:
		p.setPath(key, name, value, path)
		return
	}
	switch name {
	case "silent":
		if value != "yes" {
			p.fault("%s=%s: write hop%d.silent alone", key, value, k)
		}
		h.Answers.Silent = true
	case "late":
		h.Answers.Late = p.duration(key, value)
	case "ecmp":
		h.Members = p.number(key, value, 2, maxMembers)
	case "icmp":
		if h.ICMP = unlimited; value != "unlimited" {
			h.ICMP, err = strconv.Atoi(strings.TrimSuffix(value, "/s"))
			if err != nil || h.ICMP < 1 || h.ICMP > maxErrors || !strings.HasSuffix(value, "/s") {
				p.fault("%s=%s: use a whole number from 1/s to %d/s, or unlimited", key, value, maxErrors)
			}
		}
	}
}

// mayHop checks for settings that cannot be combined with routers.
func (p *parser) mayHop() {
	n := len(p.spec.Hops)
	if n == 0 {
		return
	}
	if p.spec.HalfDuplex {
		p.fault("duplex=half: one medium is one link: leave out hops=")
	}
	if p.spec.Bus > 0 {
		p.fault("bus=: it belongs to one link: leave out hops=, or use hopK.stage=")
	}
	if p.spec.Hops[n-1].Members > 0 {
		p.fault("hop%d.ecmp: this link ends at the far host, which has one interface: use a router before it, or give hops=%d", n, n+1)
	}
}

// way is a direction of the whole path, or of a router's link.
type way struct {
	prefix string // of its keys
	says   string // its place in error messages
	path   *wire.Path
	whole  *wire.Path // the path that it is part of, or itself
}

// ways returns the directions of the spec, those of the whole path first.
func (s *Spec) ways() []way {
	out := []way{{toPrefix, "in direction to", &s.To, &s.To}, {fromPrefix, "in direction from", &s.From, &s.From}}
	for i := range s.Hops {
		hop := fmt.Sprintf("%s%d", hopPrefix, i+1)
		back := fromPrefix + hop
		out = append(out, way{hop + ".", "at " + hop, &s.Hops[i].To, &s.To}, way{back + ".", "at " + back, &s.Hops[i].From, &s.From})
	}
	return out
}

// rated returns the direction, with the rate of every link unless it has its own.
func (w way) rated() wire.Path {
	p := *w.path
	p.Rate = cmp.Or(p.Rate, w.whole.Rate)
	return p
}

// trip returns the round trip of the whole path without queueing.
func (s *Spec) trip() (sum time.Duration) {
	for _, w := range s.ways() {
		sum += w.path.Delay
	}
	return sum
}

// hostEnd returns the addresses of a host, and peerEnd those of its neighbour: the other host,
// or the adjacent router.
func (s Spec) hostEnd(h model.Host) addresses {
	if h == model.Far {
		return plan(len(s.Hops), farEnd)
	}
	return plan(0, nearEnd)
}

func (s Spec) peerEnd(h model.Host) addresses {
	if h == model.Far {
		return plan(len(s.Hops), nearEnd)
	}
	return plan(0, farEnd)
}
