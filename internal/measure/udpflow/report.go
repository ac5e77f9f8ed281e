package udpflow

import (
	"errors"
	"math"
	"strconv"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/usage"
)

// samples adds the values of the interval from f.prev to f.cur to out.
func (f *flow) samples(host model.Host, out []model.Sample) []model.Sample {
	length := f.cur.at - f.prev.at
	emit := func(m model.Metric, v float64) {
		out = append(out, model.Sample{
			Host: host, Direction: f.direction, Metric: m, Value: v,
			Start: f.prev.at, Length: length, Omitted: f.state == warming,
		})
	}
	rate := float64(f.cur.bytes-f.prev.bytes) * 8 / length.Seconds()
	each := func(m model.Metric) {
		for i := 0; len(f.cur.each) > 1 && i < len(f.cur.each); i++ {
			emit(m, float64(f.cur.each[i]-f.prev.each[i])*8/length.Seconds())
			out[len(out)-1].Of = strconv.Itoa(i + 1)
		}
	}
	datagrams := float64(f.cur.count - f.prev.count)
	if f.role == model.Sender {
		emit(model.Sent, rate)
		each(model.StreamSent)
		emit(model.Datagrams, datagrams)
		return out
	}
	emit(model.Goodput, rate)
	each(model.StreamGoodput)
	emit(model.Datagrams, datagrams)
	// What comes late was told as lost before: later losses are set off
	// against it, so that no interval loses less than nothing.
	lost := max(0, f.cur.missing-f.shown)
	f.shown += lost
	emit(model.Lost, float64(lost))
	if j, known := f.jitter().Get(); known {
		emit(model.Jitter, j.Seconds())
	}
	return out
}

// jitter is the mean over the streams that have one.
func (f *flow) jitter() fact.Of[time.Duration] {
	var sum, n int64
	for _, s := range f.in {
		if j := s.jitter.Load(); j >= 0 {
			sum, n = sum+j, n+1
		}
	}
	if n == 0 {
		return fact.Unknown[time.Duration]("fewer than two datagrams")
	}
	return fact.Known(time.Duration(sum/n), "arrival times")
}

// report is what this end says of the direction. The threads have ended.
func (f *flow) report() model.FlowReport {
	if f.role == model.Sender {
		return f.reportOut()
	}
	return f.reportIn()
}

// reportOut is report at the sender.
func (f *flow) reportOut() model.FlowReport {
	u := &model.UDPSummary{Jitter: fact.Unknown[time.Duration]("seen by the receiver only")}
	r := model.FlowReport{Direction: f.direction, Role: f.role, UDP: u}
	var missed, alone int64
	for _, s := range f.out {
		n := s.counts.behind - s.counts.first
		b := units.Bytes(n * int64(f.size))
		r.Streams = append(r.Streams, b)
		r.Bytes += b
		r.Window = max(r.Window, s.shut-s.opened)
		u.Sent += n
		u.Refused += s.refused
		u.Pacing = s.sender.Pacing()
		u.Segmented = u.Segmented || s.sender.Segmented()
		missed += s.sender.Missed.Load()
		if s.reason == nil && !s.answered && time.Duration(s.ended.Load()) >= s.shut+f.bounds.grace {
			alone++
		}
		if s.gaps != nil {
			u.Gaps = merged(u.Gaps, &s.inWindow)
		}
	}
	if missed > 0 {
		f.warn("%d datagrams were not sent in time: the rate is more than the processor or the link of this host took", missed)
	}
	if alone > 0 {
		f.warn("%d streams were neither answered nor stopped within %v after the window", alone, f.bounds.grace)
	}
	f.warnFragments()
	return r
}

// warnFragments says where datagrams did not fit the path.
func (f *flow) warnFragments() {
	c := f.conns[0]
	if mtu, known := c.PathMTU().Get(); known && f.size+c.Headers() > mtu {
		f.warn("each datagram of %d bytes travels in fragments: packets on the path hold at most %d bytes of payload",
			f.size, mtu-c.Headers())
	}
}

// merged is the sum of both; sum may be nil.
func merged(sum, part *hist.Histogram) *hist.Histogram {
	if sum == nil {
		sum = new(hist.Histogram)
	}
	// They hold fewer than can be counted.
	_ = sum.Merge(part)
	return sum
}

// reportIn is report at the receiver.
func (f *flow) reportIn() model.FlowReport {
	u := &model.UDPSummary{Jitter: f.jitter()}
	r := model.FlowReport{Direction: f.direction, Role: f.role, UDP: u, Window: f.shut.at - f.open.at}
	uncounted := 0
	first, last := time.Duration(math.MaxInt64), time.Duration(0)
	var stale int64
	for i, s := range f.in {
		b := units.Bytes(f.shut.each[i] - f.open.each[i])
		if f.spec.Bytes != 0 {
			b = units.Bytes(s.window)
		}
		r.Streams = append(r.Streams, b)
		r.Bytes += b
		lost, counted := s.lost()
		if !counted {
			uncounted++
		}
		if s.lowest >= 0 {
			first = min(first, s.first)
		}
		last = max(last, s.last)
		u.Lost += lost
		u.Received += s.tally.Received
		u.Duplicates += s.tally.Duplicates
		u.Reordered += s.tally.Reordered
		u.MaxExtent = max(u.MaxExtent, s.tally.MaxExtent)
		u.Variation = merged(u.Variation, s.tally.Variation())
		u.Coalesced = u.Coalesced || s.receiver.Coalesced()
		stale += s.tally.Stale
	}
	if f.spec.Bytes != 0 {
		r.Window = max(0, last-first)
	}
	if uncounted > 0 {
		f.warn("the sender's count of %d streams never came: their loss is at least what is told", uncounted)
	}
	if stale > 0 {
		f.warn("%d datagrams came so late that they may have been copies: taken for lost", stale)
	}
	f.warnDrops()
	return r
}

// warnDrops says what this host itself has lost.
func (f *flow) warnDrops() {
	now, known := f.drops()
	if n := now - f.dropped; f.countDrops && known && n > 0 {
		f.warn("%d times this host threw away what it received because the socket's buffer of %s was full: "+
			"it could not keep up (trains count once; net.core.rmem_max bounds the buffer unless the process is root)",
			n, f.conns[0].RecvBuffer().Or(0))
	}
}

// report puts together what this end says, or why there is no result.
func (r *run) report() (model.EndReport, error) {
	out := model.EndReport{Host: r.host, Waiting: r.flows[0].conns[0].Waiting(), Warnings: r.warnings}
	usage.Fill(&out, r.cpuOpen, r.cpuShut)
	var faults []error
	for _, f := range r.flows {
		if f.fault != nil {
			faults = append(faults, f.fault)
			continue
		}
		flow := f.report()
		out.Flows = append(out.Flows, flow)
		out.Warnings = append(out.Warnings, f.warnings...)
		if f.role == model.Receiver {
			out.Values = append(out.Values, values(flow)...)
		}
	}
	return out, errors.Join(faults...)
}

// values are the run's numbers beside goodput.
func values(f model.FlowReport) []model.Value {
	var out []model.Value
	if n := f.UDP.Received + f.UDP.Lost; n > 0 {
		out = append(out, model.Value{
			Direction: f.Direction, Metric: model.LossRatio, Value: float64(f.UDP.Lost) / float64(n),
		})
	}
	if j, known := f.UDP.Jitter.Get(); known {
		out = append(out, model.Value{Direction: f.Direction, Metric: model.Jitter, Value: j.Seconds()})
	}
	return out
}
