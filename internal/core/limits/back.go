package limits

import (
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// AckLoad returns the share of the reverse direction that acknowledgements without data take,
// if it carries payload at rate back in packets of mtu bytes, mss of them payload. Shapers
// count other bytes around a packet than the wire has: least counts those of tbf, the Ethernet
// header; most counts all that IEEE 802.3 puts around a frame, and the padding of short ones.
func AckLoad(perSecond float64, mtu, mss int, back units.BitRate) (least, most float64) {
	if !(perSecond > 0) || !(back > 0) || mss <= 0 || mtu <= mss {
		return 0, 0
	}
	header := mtu - mss
	full := float64(back) / 8 / float64(mss) // packets per second that the direction carries
	least = perSecond * float64(header+macBytes) / (full * float64(mtu+macBytes))
	most = perSecond * float64(max(header, minFrameBytes)+frameBytes) / (full * float64(mtu+frameBytes))
	return min(least, most), max(least, most)
}

// AtOnce is what both directions carry at once, and what each carries alone.
type AtOnce struct {
	To, From, ToAlone, FromAlone units.BitRate
	// Windowed says that a receive window limits one of them when it runs alone. Beside the other
	// direction its round trip grows and its rate falls, though the two share nothing.
	Windowed bool
	// Pass says whether datagrams at ThreeQuarters of what each carries alone arrive at once: they
	// have no acknowledgements that could wait behind the data of the other direction.
	Pass fact.Of[bool]
}

// ThreeQuarters are more than a medium on which two directions take turns carries of both.
const ThreeQuarters = 0.75

// Unclear reports whether only Pass decides what the two directions share.
func (a AtOnce) Unclear() bool {
	return a.Time() > 0 && a.Time() <= mostTurns && max(a.ToAlone, a.FromAlone) >= unequal*min(a.ToAlone, a.FromAlone)
}

// Passed returns AtOnce.Pass by the last valid run of paced datagrams in both directions at once:
// what arrives takes more time than there is on one medium.
func Passed(runs []model.Run) fact.Of[bool] {
	out := fact.Unknown[bool]("not tried")
	for _, r := range runs {
		if _, paced := udp.Of(r.Flow); !paced || r.Flow.Direction != model.Both || r.State != model.RunValid {
			continue
		}
		u := 0.0
		for _, d := range r.Flow.Direction.Parts() {
			got, _ := r.Value(d, model.Goodput)
			asked, _ := udp.Toward(r.Flow, d)
			u += ThreeQuarters * got / float64(asked.Rate)
		}
		out = fact.Known(u > mostTurns, "datagrams in both directions at once")
	}
	return out
}

// Sharing is what the two directions of a path share.
type Sharing string

// What they may have in common.
const (
	Apart      Sharing = ""            // nothing, by their rates
	OneLimit   Sharing = "one limit"   // they take turns on a medium, or one limit applies to their sum
	BehindData Sharing = "behind data" // acknowledgements of the faster direction wait behind the data of the slower one
)

// The ratios by which Sharing decides, (p): diagnosis-2.md section 3.
const (
	leastTurns = 0.60 // of u: a hub with colliding frames carries this little
	mostTurns  = 1.20 // of u
	aboutSum   = 0.15 // relative distance of a sum from the faster direction alone
	alike      = 2.0  // the faster direction over the slower one, for a sum to be evidence
	unequal    = 4.0  // from here on acknowledgements behind data may look like taking turns
	thrown     = 0.70 // of what the faster direction carries alone
	untouched  = 0.85 // of what the slower one carries alone
)

// Together compares the sum of both directions with the faster of them alone, as words: up to
// 2 % above it is "no more than".
func (a AtOnce) Together() string {
	if a.To+a.From > 1.02*max(a.ToAlone, a.FromAlone) {
		return "hardly more than"
	}
	return "no more than"
}

// Time returns u: the shares of the time that the two directions would need one after the
// other. A medium on which they take turns gives 1, whatever the rates, and two independent
// directions give 2. It is 0 if a rate is unknown.
func (a AtOnce) Time() float64 {
	if !(a.ToAlone > 0) || !(a.FromAlone > 0) {
		return 0
	}
	return float64(a.To/a.ToAlone + a.From/a.FromAlone)
}

// Sharing classifies the rates.
func (a AtOnce) Sharing() Sharing {
	u := a.Time()
	if u == 0 {
		return Apart
	}
	fast, slow := a.To/a.ToAlone, a.From/a.FromAlone
	most, least := max(a.ToAlone, a.FromAlone), min(a.ToAlone, a.FromAlone)
	if a.FromAlone > a.ToAlone {
		fast, slow = slow, fast
	}
	sum := float64((a.To + a.From) / most)
	switch {
	case a.Unclear() && !a.Pass.Or(true):
		return OneLimit
	case most >= unequal*least:
		if fast <= thrown && slow >= untouched {
			return BehindData
		}
	case a.Windowed:
	case u >= leastTurns && u <= mostTurns, most <= alike*least && sum >= 1-aboutSum && sum <= 1+aboutSum:
		return OneLimit
	}
	return Apart
}
