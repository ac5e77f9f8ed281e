package peer

import (
	"math"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/udpstp"
)

// part is a sub-interval of one flow, and what this end sent in it.
type part struct {
	udpstp.SubInterval
	amount
}

// tally joins the sub-intervals of all flows of a test, by their number. It belongs to one
// goroutine at a time.
type tally struct {
	direction model.Direction
	headers   uint64 // IP and UDP headers, bytes per datagram
	omit      time.Duration
	flows     [][]part
	emitted   int
	emit      func([]model.Sample)
}

func newTally(d model.Direction, ipv6 bool, omit time.Duration, flows int, emit func([]model.Sample)) *tally {
	return &tally{direction: d, headers: uint64(udpstp.IPHeaders(ipv6)), omit: omit, flows: make([][]part, flows), emit: emit}
}

// add adds a sub-interval of flow i, and emits the samples of those that all flows have
// completed.
func (t *tally) add(i int, s udpstp.SubInterval, sent amount) {
	if s.Micros == 0 || len(t.flows[i]) >= mostSubIntervals {
		return
	}
	t.flows[i] = append(t.flows[i], part{s, sent})
	for _, f := range t.flows {
		if len(f) <= t.emitted {
			return
		}
	}
	if t.emit != nil {
		t.emit(t.samples(t.emitted))
	}
	t.emitted++
}

// mostSubIntervals is the limit for a test: an hour of 100 ms, and one more.
const mostSubIntervals = int(udpstp.MaxLength/udpstp.MinPeriod) + 1

// whole is sub-interval i of all flows together: the sum of what arrived, and both rates, each
// by the clock of its flow, bit/s.
type whole struct {
	udpstp.SubInterval
	begin, length time.Duration
	ip, payload   float64
}

func (t *tally) at(i int) (w whole) {
	for _, f := range t.flows {
		if i >= len(f) {
			continue
		}
		s := f[i]
		w.Datagrams += s.Datagrams
		w.Bytes += s.Bytes
		w.Lost += s.Lost
		w.Reordered += s.Reordered
		w.Twice += s.Twice
		w.Delays.Sum += s.Delays.Sum
		w.Delays.Count += s.Delays.Count
		w.Delays.Max = max(w.Delays.Max, s.Delays.Max)
		length := time.Duration(s.Micros) * time.Microsecond
		w.length = max(w.length, length)
		w.begin = max(w.begin, time.Duration(s.Elapsed)*time.Millisecond-length)
		w.payload += 8 * float64(s.Bytes) / length.Seconds()
		w.ip += 8 * float64(s.Bytes+uint64(s.Datagrams)*t.headers) / length.Seconds()
	}
	return w
}

// omitted reports whether most of w lies in the warm-up.
func (t *tally) omitted(w whole) bool { return w.begin+w.length/2 < t.omit }

func (t *tally) samples(i int) []model.Sample {
	w := t.at(i)
	one := func(m model.Metric, v float64) model.Sample {
		return model.Sample{Host: t.direction.Receiver(), Direction: t.direction, Metric: m, Value: v, Start: w.begin, Length: w.length, Omitted: t.omitted(w)}
	}
	return []model.Sample{one(model.Goodput, w.payload), one(model.Datagrams, float64(w.Datagrams)), one(model.Lost, float64(w.Lost))}
}

// received returns the report of the direction's receiver, and the values that only this
// protocol has. rttMin is in ms, udpstp.None if unknown.
func (t *tally) received(rttMin uint32) (model.FlowReport, []model.Value) {
	r := model.FlowReport{Direction: t.direction, Role: model.Receiver, UDP: &model.UDPSummary{Jitter: fact.Unknown[time.Duration]("UDPSTP reports delay variation")}}
	var values []model.Value
	value := func(m model.Metric, v float64) {
		values = append(values, model.Value{Direction: t.direction, Metric: m, Value: v})
	}
	var capacity, ip float64
	var delays udpstp.Delays
	for i := range t.longest() {
		w := t.at(i)
		capacity = max(capacity, w.ip) // the maximum of all, including a burst at the beginning (RFC 9097 section 5.3 [K])
		if t.omitted(w) {
			continue
		}
		ip += w.ip * w.length.Seconds()
		r.Bytes += units.Bytes(w.Bytes)
		r.Window += w.length
		r.UDP.Received += int64(w.Datagrams) - int64(w.Twice)
		r.UDP.Lost += int64(w.Lost)
		r.UDP.Reordered += int64(w.Reordered)
		r.UDP.Duplicates += int64(w.Twice)
		delays.Sum += w.Delays.Sum
		delays.Count += w.Delays.Count
		delays.Max = max(delays.Max, w.Delays.Max)
	}
	for _, f := range t.flows {
		var sum units.Bytes
		for i, s := range f {
			if w := t.at(i); !t.omitted(w) {
				sum += units.Bytes(s.Bytes)
			}
		}
		r.Streams = append(r.Streams, sum)
	}
	if r.Window > 0 {
		value(model.IPCapacity, capacity)
		value(model.IPRate, ip/r.Window.Seconds())
	}
	const ms = 1e-3
	if delays.Count > 0 {
		value(model.DelayVariation, float64(delays.Sum)/float64(delays.Count)*ms)
		value(model.DelayVariationMax, float64(delays.Max)*ms)
	}
	if rttMin != udpstp.None {
		value(model.RTTMin, float64(rttMin)*ms)
	}
	return r, values
}

// longest returns the number of sub-intervals of the longest flow.
func (t *tally) longest() (n int) {
	for _, f := range t.flows {
		n = max(n, len(f))
	}
	return n
}

// held returns the IP rate at which a search stayed although the path was not full: in the last
// three sub-intervals nothing was lost, no datagram waited for low or longer, and the rates
// agree within 2 %. The server, or its limit for a test, keeps the rate there; a search on a
// full path goes up and down.
func (t *tally) held(low time.Duration) (rate float64, is bool) {
	n := t.longest()
	if n < 3 {
		return 0, false
	}
	rate = t.at(n - 1).ip
	for i := n - 3; i < n; i++ {
		w := t.at(i)
		if w.Lost > 0 || w.Datagrams == 0 || time.Duration(w.Delays.Max)*time.Millisecond >= low || math.Abs(w.ip/rate-1) > 0.02 {
			return 0, false
		}
	}
	return rate, true
}

// sent returns the report of the direction's sender, about the same sub-intervals as that of
// its receiver.
func (t *tally) sent() model.FlowReport {
	r := model.FlowReport{Direction: t.direction, Role: model.Sender, UDP: &model.UDPSummary{Pacing: "clock"}}
	for i := range t.longest() {
		if w := t.at(i); !t.omitted(w) {
			r.Window += w.length
		}
	}
	for _, f := range t.flows {
		var sum units.Bytes
		for i, p := range f {
			if t.omitted(t.at(i)) {
				continue
			}
			sum += units.Bytes(p.bytes)
			r.UDP.Sent += p.datagrams
			r.UDP.Refused += p.refused
		}
		r.Streams = append(r.Streams, sum)
		r.Bytes += sum
	}
	return r
}

// leastRTT returns the least round trip of all flows, ms.
func leastRTT(flows []*flow) uint32 {
	least := uint32(udpstp.None)
	for _, f := range flows {
		least = min(least, f.rttMin)
	}
	return least
}
