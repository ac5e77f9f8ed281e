package datagram

import (
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
)

// Arrival is one received datagram.
type Arrival struct {
	Seq  int64         // its number
	Sent time.Duration // departure by the sender's clock; any origin
	At   time.Duration // arrival by the receiver's clock; any origin
	// Counted is whether the datagram belongs to what is measured, such as the measured window.
	// Others still advance the sequence.
	Counted bool
	// Follows is whether it arrived in one piece with the previous datagram, so that its times
	// carry no new information.
	Follows bool
}

// Fate is how Tally classifies an arrival.
type Fate int

// The fates.
const (
	First     Fate = iota // the first copy
	Duplicate             // a further copy
	Stale                 // too old to classify: see NewTally
)

// Tally does the accounting of one stream of numbered datagrams. It distinguishes loss,
// duplication and reordering: a late datagram is not lost, and a copy makes up for no loss. It
// belongs to one goroutine; Add does not allocate.
//
// The fields count the arrivals marked as Counted.
type Tally struct {
	Received   int64 // different datagrams
	Duplicates int64 // copies beyond the first
	// Reordered counts the first copies that arrived after a datagram that was sent later (RFC
	// 4737 section 3.3; copies are no packets of the sequence there).
	Reordered int64
	// MaxExtent is the largest reordering extent: how many different datagrams have arrived
	// since the first one that was sent later (RFC 4737 section 4.2.1). If that one is no
	// longer remembered, MaxExtent is a lower bound.
	MaxExtent int64
	// Stale counts the arrivals too old to be remembered. They are late or copies, and count as
	// lost.
	Stale int64

	Total int64 // different datagrams, counted or not

	first   int64 // number of the first datagram of the stream
	next    int64 // highest number seen, plus 1
	seen    bitmap
	order   order
	jitter  jitter
	spread  *spread
	arrived int64 // different datagrams, in order of arrival: the index of the next
}

// Bounds of NewTally's memory.
const (
	MinMemory = 1 << 10
	MaxMemory = 1 << 24
)

// NewTally returns the tally of a stream whose first datagram has the number first. It
// remembers the last memory numbers below the highest one seen, rounded up to a power of two
// between MinMemory and MaxMemory; later arrivals are Stale. Each number takes one bit.
func NewTally(first int64, memory int) *Tally {
	return &Tally{first: first, next: first, seen: newBitmap(memory), order: newOrder(), spread: newSpread()}
}

// Add counts an arrival.
func (t *Tally) Add(a Arrival) Fate {
	if a.Seq >= t.next {
		t.seen.advance(t.next, a.Seq)
		t.order.highest(a.Seq, t.arrived)
		t.next = a.Seq + 1
		t.take(a)
		return First
	}
	if a.Seq < t.first || t.seen.forgot(a.Seq, t.next) {
		if a.Counted {
			t.Stale++
		}
		return Stale
	}
	if !t.seen.set(a.Seq) {
		if a.Counted {
			t.Duplicates++
		}
		return Duplicate
	}
	if a.Counted {
		t.Reordered++
		t.MaxExtent = max(t.MaxExtent, t.arrived-t.order.overtaker(a.Seq))
	}
	t.take(a)
	return First
}

// take counts a first copy.
func (t *Tally) take(a Arrival) {
	t.arrived++
	t.Total++
	if a.Counted {
		t.Received++
	}
	if a.Follows {
		return
	}
	transit := int64(a.At - a.Sent)
	t.jitter.add(transit)
	if a.Counted {
		t.spread.add(transit)
	}
}

// Missing returns how many datagrams below the highest number seen have not arrived yet,
// counted or not. It falls when one arrives late.
func (t *Tally) Missing() int64 { return t.next - t.first - t.Total }

// Next returns the highest number seen plus 1; before the first datagram, the first number of
// the stream.
func (t *Tally) Next() int64 { return t.next }

// Jitter returns the interarrival jitter of RFC 3550 section 6.4.1 after the last datagram;
// unknown before the second one. It ignores copies and datagrams with Follows set.
func (t *Tally) Jitter() fact.Of[time.Duration] {
	if t.jitter.samples == 0 {
		return fact.Unknown[time.Duration]("fewer than two datagrams")
	}
	return fact.Known(time.Duration(t.jitter.value+0.5), "arrival times")
}

// Variation returns the distribution of the one-way delays above the least one (PDV, RFC 5481
// section 4.2) of the counted first copies without Follows. The resolution is 128 ns for delays
// within 2 ms of the first one, 3 % for others. Two clocks that drift apart widen it: 20 ppm
// are 0.2 ms in 10 s. The call is slow: make it after the run.
func (t *Tally) Variation() *hist.Histogram { return t.spread.histogram() }

// jitter is the estimator of RFC 3550 section 6.4.1 and appendix A.8, in ns.
type jitter struct {
	value   float64
	transit int64 // of the previous datagram
	begun   bool
	samples int64
}

func (j *jitter) add(transit int64) {
	if !j.begun {
		j.begun, j.transit = true, transit
		return
	}
	d := transit - j.transit
	if d < 0 {
		d = -d
	}
	j.transit = transit
	j.value += (float64(d) - j.value) / 16
	j.samples++
}
