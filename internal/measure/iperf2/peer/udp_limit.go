package peer

import (
	"fmt"
	"net/netip"
	"time"

	"linerate/internal/core/units"
)

// burst is the time whose allowance a client may send at once.
const burst = time.Second

// level is a leaky bucket: how many bits arrived above the limit.
type level struct {
	bits float64
	at   time.Duration
}

// add counts n bytes at time at, and reports whether the bucket overflows.
func (l *level) add(n int, rate units.BitRate, at time.Duration) bool {
	l.bits = max(0, l.bits-float64(rate)*(at-l.at).Seconds()) + 8*float64(n)
	l.at = at
	return l.bits > float64(rate)*burst.Seconds()
}

// floods counts a datagram of n bytes from an address, and reports whether that address exceeds
// its limit.
func (u *udpServer) floods(from netip.Addr, n int, at time.Duration) bool {
	from = source(from)
	if u.UDPRate <= 0 {
		return false
	}
	l, known := u.came[from]
	if !known {
		l = &level{at: at}
		u.came[from] = l
	}
	return l.add(n, u.UDPRate, at)
}

// throwOut ends all flows of an address. They stay recorded while datagrams arrive, and are
// ignored, which is the protocol's only refusal.
func (u *udpServer) throwOut(from netip.Addr, at time.Duration) {
	ended := 0
	for _, f := range u.flows {
		if source(f.from.Addr()) != source(from) || f.refused || f.over {
			continue
		}
		f.over = true
		ended++
		if f.stop != nil {
			f.stop()
		}
		f.thrown = fmt.Sprintf("to receiver: ended: more than %v came over UDP", u.UDPRate)
		u.goGuarded(f.from, func() { u.end(f) })
	}
	if ended > 0 {
		u.tell(at, "client %v: ended %d flows: more than %v over UDP", from, ended, u.UDPRate)
	}
}

// udpMost is the highest rate at which the server sends to one address.
func (u *udpServer) udpMost() units.BitRate {
	if u.UDPRate > 0 {
		return u.UDPRate
	}
	return udpMost
}

// leastGrant is the part of a request below which sending is pointless.
const leastGrant = 0.01

// grant returns how much of asked may be sent to an address besides its other flows; 0 is
// nothing.
func (u *udpServer) grant(to netip.Addr, asked units.BitRate) units.BitRate {
	to = source(to)
	u.mu.Lock()
	defer u.mu.Unlock()
	rate := min(asked, u.udpMost()-u.granted[to])
	if rate < leastGrant*asked {
		return 0
	}
	u.granted[to] += rate
	return rate
}

// giveBack ends a grant.
func (u *udpServer) giveBack(to netip.Addr, rate units.BitRate) {
	to = source(to)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.granted[to] -= rate; u.granted[to] < 1 {
		delete(u.granted, to)
	}
}
