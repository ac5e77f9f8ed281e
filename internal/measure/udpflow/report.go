package udpflow

import (
	"math"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/run"
)

// tell adds the jitter of an interval.
func (f *flow) tell(add run.Add) {
	if f.Role == model.Sender {
		return
	}
	if j, known := f.jitter().Get(); known {
		add(model.Jitter, j.Seconds(), "")
	}
}

// jitter returns the mean over the streams that have one.
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

// report completes this end's report of the direction. The threads have ended.
func (f *flow) report(r *model.FlowReport) {
	if f.Role == model.Sender {
		f.reportOut(r)
	} else {
		f.reportIn(r)
	}
}

// reportOut is report for a sender, whose threads recorded the window.
func (f *flow) reportOut(r *model.FlowReport) {
	u := &model.UDPSummary{Jitter: fact.Unknown[time.Duration]("seen by the receiver only")}
	r.UDP, r.Bytes, r.Window, r.Streams = u, 0, 0, nil
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
		if s.inWindow != nil {
			u.Gaps = merged(u.Gaps, s.inWindow)
		}
	}
	if missed > 0 {
		f.Warn("%d datagrams were not sent in time: the rate is more than the processor or the link of this host took", missed)
	}
	if alone > 0 {
		f.Warn("%d streams were neither answered nor stopped within %v after the window", alone, f.bounds.grace)
	}
	f.warnFragments()
}

// warnFragments warns of datagrams that did not fit the path.
func (f *flow) warnFragments() {
	c := f.conns[0]
	if mtu, known := c.PathMTU().Get(); known && f.size+c.Headers() > mtu {
		f.Warn("each datagram of %d bytes travels in fragments: packets on the path hold at most %d bytes of payload",
			f.size, mtu-c.Headers())
	}
}

// merged returns the sum of both; sum may be nil.
func merged(sum, part *hist.Histogram) *hist.Histogram {
	if sum == nil {
		sum = new(hist.Histogram)
	}
	// They hold fewer values than the limit.
	_ = sum.Merge(part)
	return sum
}

// reportIn is report for a receiver.
func (f *flow) reportIn(r *model.FlowReport) {
	u := &model.UDPSummary{Jitter: f.jitter()}
	r.UDP = u
	if f.Spec.Bytes != 0 {
		r.Bytes = 0
	}
	uncounted := 0
	first, last := time.Duration(math.MaxInt64), time.Duration(0)
	var stale int64
	for i, s := range f.in {
		if f.Spec.Bytes != 0 {
			r.Streams[i] = units.Bytes(s.window)
			r.Bytes += r.Streams[i]
		}
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
	if f.Spec.Bytes != 0 {
		r.Window = max(0, last-first)
	}
	if uncounted > 0 {
		f.Warn("the sender's count of %d streams never came: their loss is at least what is printed", uncounted)
	}
	if stale > 0 {
		f.Warn("%d datagrams came so late that they may have been copies: taken for lost", stale)
	}
	f.warnDrops()
}

// warnDrops warns of datagrams that this host itself dropped.
func (f *flow) warnDrops() {
	now, known := f.drops()
	if n := now - f.dropped; f.countDrops && known && n > 0 {
		f.Warn("%d times this host threw away what it received because the socket's buffer of %s was full: "+
			"it could not keep up (trains count once; net.core.rmem_max bounds the buffer unless the process is root)",
			n, f.conns[0].RecvBuffer().Or(0))
	}
}

// values returns the run's values besides goodput.
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
