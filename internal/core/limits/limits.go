// Package limits computes what physics and protocol allow a flow to carry:
// the wire's framing, the window over the round trip, and loss.
//
// Everything is arithmetic on values; nothing is measured here. A bound that
// does not bind (no loss, no delay) is +Inf, which Smallest leaves out.
package limits

import (
	"math"

	"linerate/internal/core/units"
)

// Limit is one named upper bound of a flow's payload rate.
type Limit struct {
	Name   string        `json:"name"`   // "wire", "receive window", "loss"
	Rate   units.BitRate `json:"rate"`   // bits of payload per second
	Source string        `json:"source"` // what the number rests on: "1 Gbit/s at MTU 1500", "64 KiB over 10 ms"
}

// Smallest returns the limit with the lowest rate, the first one among equals.
// It reports false where no limit is finite: +Inf bounds nothing, and NaN is
// not known.
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
