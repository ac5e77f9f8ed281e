package peer

import (
	"fmt"
	"net/netip"
	"time"

	"linerate/internal/core/units"
)

// burst is for how long a client may send what its limit allows, at once.
const burst = time.Second

// level is a leaky bucket: how many bits came more than the limit allows.
type level struct {
	bits float64
	at   time.Duration
}

// add counts n bytes at time at, and reports whether they are too many.
func (l *level) add(n int, rate units.BitRate, at time.Duration) bool {
	l.bits = max(0, l.bits-float64(rate)*(at-l.at).Seconds()) + 8*float64(n)
	l.at = at
	return l.bits > float64(rate)*burst.Seconds()
}

// floods counts a datagram of n bytes from an address, and reports whether more
// comes from there than may.
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

// throwOut ends all flows of an address. They stay known as long as something
// comes, and are met with silence, which is all that the protocol has.
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

// udpMost is the rate at which one address is sent to at most.
func (u *udpServer) udpMost() units.BitRate {
	if u.UDPRate > 0 {
		return u.UDPRate
	}
	return udpMost
}

// leastGrant is the part of what was asked for below which there is no point in
// sending.
const leastGrant = 0.01

// grant returns how much of asked may be sent to an address besides what is
// already; 0 is nothing.
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
