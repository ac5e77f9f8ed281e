package peer

import (
	"sync/atomic"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/datagram"
	"linerate/internal/measure/iperf2"
)

const (
	tallyMemory = 1 << 16 // how far back a late datagram is distinguished from a copy
	// mostNumber bounds the numbers of datagrams: a test of a year at 10^8 a second stays below
	// it.
	mostNumber = 1 << 52
)

// arrivals counts one incoming flow of datagrams. One goroutine calls take; the counters may be
// read meanwhile.
type arrivals struct {
	layout iperf2.Layout
	omit   time.Duration // not counted, after the first datagram
	tally  *datagram.Tally

	first    time.Duration // by this end's clock
	last     time.Duration
	begun    bool
	counting bool
	ahead    int64 // missing when counting began

	bytes atomic.Int64 // payload of different datagrams, counted
	got   atomic.Int64 // different datagrams, counted
	lost  atomic.Int64 // missing so far, counted
	final atomic.Bool  // the sender has finished
	end   int64        // number of the final datagram
	late  bool         // counts what the final datagram overtook
}

// newArrivals returns the counters of a flow in layout l.
func newArrivals(l iperf2.Layout, omit time.Duration) *arrivals {
	return &arrivals{layout: l, omit: omit, tally: datagram.NewTally(firstNumber(l), tallyMemory)}
}

// firstNumber returns the number of the first datagram (section 5).
func firstNumber(l iperf2.Layout) int64 {
	if l == iperf2.Layout12 {
		return 0
	}
	return 1
}

// take counts the datagram b, which arrived at time at, and reports whether it is a final one.
// Only the first final one counts, as in iperf 2, and nothing after it unless a.late.
func (a *arrivals) take(b []byte, at time.Duration, follows bool) (final bool) {
	d, err := iperf2.ParseDatagram(b, a.layout)
	number := d.Number()
	over := a.final.Load()
	if err != nil || number > mostNumber || over && (!a.late || d.Final() || int64(number) > a.end) {
		return err == nil && d.Final()
	}
	if !a.begun {
		a.begun, a.first = true, at
	}
	counted := max(0, at-a.first) >= a.omit // one that was overtaken may have come before the first
	if counted && !a.counting {
		a.counting, a.ahead = true, a.tally.Missing()
	}
	sent := time.Duration(d.Sent.Seconds)*time.Second + time.Duration(d.Sent.Microseconds)*time.Microsecond
	fate := a.tally.Add(datagram.Arrival{Seq: int64(number), Sent: sent, At: at, Counted: counted, Follows: follows})
	if counted {
		if fate == datagram.First {
			a.bytes.Add(int64(len(b)))
		}
		a.got.Store(a.tally.Received)
		a.lost.Store(max(0, a.tally.Missing()-a.ahead))
	}
	if over {
		return false
	}
	a.last = at
	if d.Final() {
		a.end = int64(number)
		a.final.Store(true)
	}
	return d.Final()
}

// whole reports whether the sender has finished and nothing is missing.
func (a *arrivals) whole() bool { return a.final.Load() && a.lost.Load() == 0 }

// window returns the counted time.
func (a *arrivals) window() time.Duration { return max(0, a.last-a.first-a.omit) }

// report returns the report for the sender.
func (a *arrivals) report() iperf2.Report {
	return iperf2.Report{
		Bytes: uint64(a.bytes.Load()), Duration: spanOf(a.window()), Lost: a.lost.Load(),
		OutOfOrder: a.tally.Reordered, Datagrams: a.got.Load() + a.lost.Load(),
		Jitter: spanOf(a.tally.Jitter().Or(0)),
	}
}

// spanOf returns a duration in wire format.
func spanOf(d time.Duration) iperf2.Stamp {
	return iperf2.Stamp{Seconds: uint32(d / time.Second), Microseconds: uint32(d % time.Second / time.Microsecond)}
}

// summarise returns this end's report of direction d over all its flows.
func summarise(d model.Direction, flows []*arrivals) model.FlowReport {
	u := &model.UDPSummary{Variation: &hist.Histogram{}}
	r := model.FlowReport{Direction: d, Role: model.Receiver, UDP: u}
	var jitter time.Duration
	known := 0
	for _, a := range flows {
		n := units.Bytes(a.bytes.Load())
		r.Streams = append(r.Streams, n)
		r.Bytes += n
		r.Window = max(r.Window, a.window())
		u.Received += a.got.Load()
		u.Lost += a.lost.Load()
		u.Duplicates += a.tally.Duplicates
		u.Reordered += a.tally.Reordered
		u.MaxExtent = max(u.MaxExtent, a.tally.MaxExtent)
		if j, ok := a.tally.Jitter().Get(); ok {
			jitter += j
			known++
		}
		// All these histograms have the same buckets.
		_ = u.Variation.Merge(a.tally.Variation())
	}
	u.Jitter = fact.Unknown[time.Duration]("fewer than two datagrams")
	if known > 0 {
		u.Jitter = fact.Known(jitter/time.Duration(known), "arrival times")
	}
	return r
}
