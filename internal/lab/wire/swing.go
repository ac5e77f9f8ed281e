package wire

import (
	"math"
	"strconv"
	"time"

	"linerate/internal/core/units"
)

// Swing makes a rate go up and down as a sine: at time t after the wire's start it is Rate × (1
// + Share × sin(2π (t + Lead) / Period)), whatever the traffic. Over a whole period, Rate is
// the mean. The zero value is a steady rate.
type Swing struct {
	Share  units.Percent `json:"share,omitempty"`     // of the rate, above and below it, less than 100; 0 is steady
	Period time.Duration `json:"period_ns,omitempty"` // of one oscillation, above 0 unless Share is 0
	Lead   time.Duration `json:"lead_ns,omitempty"`   // position in the period at the wire's start, from 0
}

// String returns the swing in a lab's text form, such as 10%/1m0s or 10%/1m0s/15s.
func (s Swing) String() string {
	text := strconv.FormatFloat(float64(s.Share), 'f', -1, 64) + "%/" + s.Period.String()
	if s.Lead > 0 {
		text += "/" + s.Lead.String()
	}
	return text
}

// At returns the factor of the mean rate at t after the wire's start.
func (s Swing) At(t time.Duration) float64 {
	w := newSway(s)
	return 1 + w.share*math.Sin(w.turn*(float64(t)+w.lead))
}

// sway is a Swing as a conversion between two clocks: moments, and the time in which the mean
// rate does the same work, both in nanoseconds since the wire's start. On the second clock a
// frame takes the same time at every moment, so that errors do not add up.
type sway struct {
	share float64 // of the rate, 0 is steady
	turn  float64 // radians per nanosecond
	lead  float64 // nanoseconds
	reach float64 // half of the most that one clock is ahead of the other, nanoseconds
	first float64 // cosine at the wire's start
}

func newSway(s Swing) sway {
	if s.Share <= 0 || s.Period <= 0 {
		return sway{}
	}
	w := sway{share: float64(s.Share) / 100, turn: 2 * math.Pi / float64(s.Period), lead: float64(s.Lead)}
	w.reach, w.first = w.share/w.turn, math.Cos(w.turn*w.lead)
	return w
}

// work returns how long the mean rate needs for what the swinging one does until moment: the
// integral of 1 + share × sin.
func (w sway) work(moment float64) float64 {
	if w.share == 0 {
		return moment
	}
	return moment - w.reach*(math.Cos(w.turn*(moment+w.lead))-w.first)
}

// moment is the inverse of work, by Newton's method, or by bisection if a step leaves the
// interval. It is Kepler's equation, and with a share below 1 the solution is unique.
func (w sway) moment(work float64) float64 {
	if w.share == 0 {
		return work
	}
	const enough, most = 0.01, 100 // nanoseconds; halving two days alone takes fewer steps
	low, high := work-2*w.reach, work+2*w.reach
	at := work
	for range most {
		over := w.work(at) - work
		if over > 0 {
			high = at
		} else {
			low = at
		}
		next := at - over/(1+w.share*math.Sin(w.turn*(at+w.lead)))
		if next <= low || next >= high {
			next = (low + high) / 2
		}
		if math.Abs(next-at) < enough {
			return next
		}
		at = next
	}
	return at
}
