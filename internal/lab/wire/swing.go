package wire

import (
	"math"
	"strconv"
	"time"

	"linerate/internal/core/units"
)

// Swing makes a rate go up and down as a sine does: at a moment t after the wire's start
// it is Rate × (1 + Share × sin(2π (t + Lead) / Period)), whatever passes. Over a whole
// period, Rate is the mean. The zero value is a steady rate.
type Swing struct {
	Share  units.Percent `json:"share,omitempty"`     // of the rate, above it and below it, less than 100; 0 is steady
	Period time.Duration `json:"period_ns,omitempty"` // of one up and one down, above 0 unless Share is 0
	Lead   time.Duration `json:"lead_ns,omitempty"`   // so far into a period the wire starts, from 0
}

// String returns the swing as a lab's text has it, such as 10%/1m0s or 10%/1m0s/15s.
func (s Swing) String() string {
	text := strconv.FormatFloat(float64(s.Share), 'f', -1, 64) + "%/" + s.Period.String()
	if s.Lead > 0 {
		text += "/" + s.Lead.String()
	}
	return text
}

// At returns what the mean rate is multiplied by at t after the wire's start.
func (s Swing) At(t time.Duration) float64 {
	w := newSway(s)
	return 1 + w.share*math.Sin(w.turn*(float64(t)+w.lead))
}

// sway is a Swing as arithmetic between two clocks: moments, and the time in which the
// mean rate does the same work, both in nanoseconds since the wire's start. On the
// second clock a frame takes the same time at every moment, so no error adds up.
type sway struct {
	share float64 // of the rate, 0 is steady
	turn  float64 // radians per nanosecond
	lead  float64 // nanoseconds
	reach float64 // half of what one clock is ahead of the other at most, nanoseconds
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

// work returns how long the mean rate needs for what the swinging one does until moment:
// the integral of 1 + share × sin.
func (w sway) work(moment float64) float64 {
	if w.share == 0 {
		return moment
	}
	return moment - w.reach*(math.Cos(w.turn*(moment+w.lead))-w.first)
}

// moment is the inverse of work, by Newton's method, or by halving what is left where a
// step leads out of it. It is Kepler's equation, and a share below 1 has one answer.
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
