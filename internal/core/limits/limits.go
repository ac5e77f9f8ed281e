// Package limits computes what physics and protocol allow a flow to carry:
// the wire's framing, the window over the round trip, and loss.
//
// Everything is arithmetic on values; nothing is measured here. A bound that
// does not bind (no loss, no delay) is +Inf, which Smallest leaves out.
package limits

import (
	"math"
	"time"

	"linerate/internal/core/units"
)

// Limit is one named upper bound of a flow's payload rate.
type Limit struct {
	Name   string        `json:"name"`   // "wire", "receive window", "loss"
	Rate   units.BitRate `json:"rate"`   // bits of payload per second
	Source string        `json:"source"` // the basis of the number: "1 Gbit/s at MTU 1500", "64 KiB over 10 ms"
}

// Smallest returns the limit with the lowest rate, the first one among equals. It reports false
// if no limit is finite: +Inf does not limit, and NaN is unknown.
func Smallest(limits []Limit) (Limit, bool) {
	best, found := Limit{Rate: units.BitRate(math.Inf(1))}, false
	for _, l := range limits {
		if l.Rate < best.Rate { // false for NaN and +Inf
			best, found = l, true
		}
	}
	if !found {
		return Limit{}, false
	}
	return best, true
}

// Windows that a TCP header can announce.
const (
	// MaxUnscaledWindow is the largest window without the window scale
	// option: 16 bits (RFC 9293 section 3.1).
	MaxUnscaledWindow units.Bytes = 65535
	// MaxWindow is the largest window with it: 65535 shifted by 14 (RFC 7323
	// section 2.3).
	MaxWindow = MaxUnscaledWindow << 14
)

// WindowBound returns the most that a flow carries with at most window bytes in flight: window
// x 8 / rtt (RFC 7323 section 1.1). The window is the least of the receiver's announced window,
// the payload part of the sender's buffer and the congestion window. A window of 0 or less
// carries nothing; an rtt of 0 or less does not limit and gives +Inf.
func WindowBound(window units.Bytes, rtt time.Duration) units.BitRate {
	switch {
	case window <= 0:
		return 0
	case rtt <= 0:
		return units.BitRate(math.Inf(1))
	}
	return units.BitRate(float64(window) * 8 / rtt.Seconds())
}

// firstSegments is how many segments a connection may send before the first acknowledgement
// (RFC 6928).
const firstSegments = 10

// Fill returns the least time that a connection with segments of mss bytes needs until its
// window carries rate over rtt: a handshake and a first flight, then a doubling per round trip.
func Fill(rate units.BitRate, rtt time.Duration, mss int) time.Duration {
	doublings := math.Log2(max(1, float64(max(1, WindowFor(rate, rtt)))/float64(firstSegments*mss)))
	return time.Duration((2 + doublings) * float64(rtt))
}

// Lengths of a run over a round trip (diagnosis-2.md section 4; p).
const (
	afterFill = 5  // round trips after slow start before the rate is the path's
	pacedFill = 10 // and for bbr, which probes for the rate and then drains the queue
	fewTrips  = 10 // least number of measured round trips
	trips     = 20 // sufficient number of measured round trips
)

// Warmup returns the part of a run that belongs to the start of its connection. paced says that
// the sender's congestion control is bbr.
func Warmup(rate units.BitRate, rtt time.Duration, mss int, paced bool) time.Duration {
	after := time.Duration(afterFill)
	if paced {
		after = pacedFill
	}
	return Fill(rate, rtt, mss) + after*rtt
}

// Measured returns how long to measure after Warmup.
func Measured(rtt time.Duration) time.Duration { return trips * rtt }

// TooShort returns how long a run has to last in all to show what the path carries, and whether
// length is less.
func TooShort(length time.Duration, rate units.BitRate, rtt time.Duration, mss int) (least time.Duration, short bool) {
	least = Warmup(rate, rtt, mss, false) + fewTrips*rtt
	return least, length < least
}

// WindowFor returns the least window that carries rate over rtt, the bandwidth-delay product
// rounded up to whole bytes: rate x rtt / 8. It is 0 for a rate or rtt of 0 or less and at most
// the largest Bytes.
func WindowFor(rate units.BitRate, rtt time.Duration) units.Bytes {
	if !(rate > 0) || rtt <= 0 {
		return 0
	}
	need := math.Ceil(float64(rate) * rtt.Seconds() / 8)
	if need >= math.MaxInt64 {
		return math.MaxInt64
	}
	return units.Bytes(need)
}
