package diagnose

import (
	"fmt"
	"math"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// The rules about packets that are lost on the path, or seem to be.

// reordering is rule B11. It comes before loss: a sender may mistake a changed order for loss
// (diagnosis.md section 4.0, rule 3).
func reordering(f features) (*finding, bool) {
	signs, slowed := f.signs.Or(0), f.slowed.Or(0)
	if f.resent.Or(0) <= 0 || !f.pathBound() || !f.reorders() || f.famished(f.Sender) || f.famished(f.Receiver) {
		return nil, false
	}
	b := f.found(f.Sender.Host, "reordering").
		because("tcp_undone, tcp_recoveries, tcp_timeouts of the sender", "the sender slowed down %s and took it back %s, since nothing was lost", times(slowed), times(signs)).
		because("TCP_INFO total_retrans", "%.2g %% of the segments were sent again", 100*f.resent.Or(0)).
		explains(f.explainedBy1())
	if n := f.Receiver.Counters.Moved("tcp_out_of_order").Or(0); n > 0 {
		b.because("tcp_out_of_order of the receiver", "%s before an earlier one", plain.Count(n, "segment came", "segments came"))
	}
	b.misses(f.Receiver.Counters.Moved("tcp_out_of_order").IsKnown(), "how many segments came out of order", byCounters)
	if f.paced() && !f.lossy() { // bbr keeps its rate; only what it sends again is lost to it
		b.kind(model.FindingBeside)
	}
	if sack, known := f.TCP.SACK.Get(); known && !sack {
		return b.also("selective acknowledgements are off, so that the sender cannot tell it from loss").helps(sackKnob), true
	}
	return b.helps("tcp.congestion_control").noKnob("a path that spreads the packets of one connection over several ways: change that, or give each connection one way"), true
}

// reorders reports whether the sender undid about as many slowdowns as it made, since
// everything had arrived: this is not loss.
func (f features) reorders() bool {
	signs, known := f.signs.Get()
	return known && signs >= fewSigns && float64(signs) >= reorderEvents*float64(f.slowed.Or(0))
}

// explainedBy1 returns the whole gap, if there is one.
func (f features) explainedBy1() fact.Of[float64] { return f.explainedBy(f.Goodput) }

// loss is rule B10: the rate is near what the loss rate allows, and the path was never full, so
// that its own queue did not cause the losses.
func loss(f features) (*finding, bool) {
	if _, order := reordering(f); f.mends() && !order {
		return f.found(f.Sender.Host, "packet loss").
			because("TCP_INFO total_retrans, rtt", "selective acknowledgements are off, so that the sender does not know what is missing: it sent %d segments again in %.0f round trips, though it lost some only %s", f.TCP.Retransmits.Or(0), f.Window.Seconds()/f.TCP.RTT.Or(f.nearRTT).Seconds(), times(f.slowed.Or(0))).
			explains(f.explainedBy1()).helps(sackKnob).noKnob("find where packets are lost as well: " + onTheWay), true
	}
	p, rtt, ok := f.lossRate()
	mss := f.TCP.MSS.Or(0)
	if !ok || f.paced() || !f.pathBound() || mss <= 0 || f.fills() || f.together() || f.onlyBursts() || f.inBursts() {
		return nil, false
	}
	if f.reorders() {
		return nil, false
	}
	bound := limits.LossBound(mss, rtt, p) * units.BitRate(f.Streams)
	least, waited := bound, f.Sender.Counters.Moved("tcp_timeouts").Or(0)
	if waited >= fewSigns { // formulas of the window alone do not include this
		least = min(bound, limits.TimeoutBound(mss, rtt, rtt+leastTimer, p)*units.BitRate(f.Streams))
	}
	low, high := f.lossFactors()
	if float64(f.Goodput) < low*float64(least) || float64(f.Goodput) > high*float64(bound) {
		return nil, false
	}
	b := f.found(f.Sender.Host, "packet loss")
	if f.events.IsKnown() {
		allows := "about " + bound.String()
		if high > lossFactor {
			allows = fmt.Sprintf("%s to %s", units.BitRate(low)*bound, units.BitRate(high)*bound)
		}
		b.because("tcp_recoveries, tcp_timeouts", "the sender slowed down %s for losses, %.2g %% of the segments; at %s that allows %s",
			times(f.slowed.Or(0)), 100*p, units.FormatDuration(rtt), allows)
	} else {
		b.because("TCP_INFO total_retrans", "%d of %d segments were sent again (%.2g %%); at %s that allows about %s",
			f.TCP.Retransmits.Or(0), f.TCP.SegmentsOut.Or(0), 100*p, units.FormatDuration(rtt), bound)
	}
	if float64(f.Goodput) < low*float64(bound) {
		b.because("tcp_timeouts", "and it waited for its timer %s, which takes it down to about %s", times(waited), least)
	}
	again := float64(f.TCP.Retransmits.Or(0))
	if name, n := f.Receiver.Counters.cardLosses(); n > 0 && float64(n) >= aboutAsMany*again && again >= aboutAsMany*float64(n) {
		b.because("nic_driver "+name, "the receiver's card lost %s (%s), about as many as were sent again", plain.Count(n, "packet"), name)
	}
	b.allows(bound, "larger of the Mathis and CUBIC bounds").misses(f.events.IsKnown(), "how often the sender slowed down", byCounters)
	b.Explains = f.onlyWithCeiling(f.explainedBy1()) // the bound is good within a factor of two, and the rate lies in that range
	if len(f.Beside.Ladder) == 0 {
		b.misses(false, "whether the losses come with any rate, or from one rate on", ByCheck)
	}
	if sack, known := f.TCP.SACK.Get(); known && !sack {
		b.helps(sackKnob)
	}
	return b.helps("tcp.congestion_control", "link.mtu").
		noKnob(FindLoss + "; linerate check HOST says which card counts broken frames"), true
}

// lossFactors returns the range of the rate, as factors of the loss bound. With few losses
// their rate is hardly known: with the exact bounds of a Poisson distribution for 1 to 3 of
// them (0.025 to 5.57, 0.24 to 7.2, 0.62 to 8.8 at 95 %) the rate, which goes with their root,
// is 0.42 to 6.3 times the bound and so on. Above the range for many losses, the window also
// has to be too small for the path.
func (f features) lossFactors() (low, high float64) {
	n, counted := f.slowed.Get()
	if !counted || n < 1 || n > 3 {
		return 1 / lossFactor, lossFactor
	}
	low, high = [...]float64{0.42, 0.53, 0.58}[n-1], [...]float64{6.3, 2.9, 2.2}[n-1]
	if _, short := shortTest(f); short || float64(f.TCP.Cwnd.Or(0)) >= nearlyFull*f.held()*float64(f.TCP.MSS.Or(1448)*f.Streams) {
		high = lossFactor
	}
	return low, high
}

// FindLoss is the advice against packets lost on the path.
const FindLoss = "find where packets are lost and mend that: " + atTheWire + "; counters of the switches between"

// leastTimer is the least time that Linux adds to the round trip before it retransmits an
// unacknowledged segment (TCP_RTO_MIN).
const leastTimer = 200 * time.Millisecond

// mends reports whether the sender did little but retransmit: one segment per round trip, which
// is all that it can without SACK (RFC 6582 section 3.2), or all of them after a timeout. The
// receiver's window is meanwhile full with what arrived after the first hole.
func (f features) mends() bool {
	sack, known := f.TCP.SACK.Get()
	again, rtt := f.TCP.Retransmits.Or(0), f.TCP.RTT.Or(f.nearRTT)
	if !known || sack || f.Window <= 0 || again < fewBursts || again < 2*max(f.slowed.Or(again), f.signs.Or(0)) {
		return false
	}
	share := float64(again) * rtt.Seconds() / f.Window.Seconds()
	return share >= mending || share >= limitedShare && share >= 1-f.full.Or(0) // or it is all the time that was lost
}

// lossRate returns the share of segments that were lost: loss events if they were counted,
// otherwise retransmitted segments.
func (f features) lossRate() (p float64, rtt time.Duration, ok bool) {
	again, known := f.resent.Get()
	if !known || again < lossMatters || f.nearRTT <= 0 {
		return 0, 0, false
	}
	p = again
	if events, counted := f.events.Get(); counted {
		p = events
	}
	return p, f.nearRTT, p >= lossMatters
}

// fills reports whether the flow fills the path at times, so that losses come from a full
// queue.
func (f features) fills() bool { return f.peak.Or(0) >= touched || f.stands() }

// stands reports whether packets always waited on the path: a stage there was then never idle,
// and the measured rate is its rate, however unevenly data arrived. A paced sender lets the
// queue drain between its probes, which the smoothed round trip of the samples does not show.
func (f features) stands() bool {
	return f.nearRTT > 0 && !f.paced() && float64(f.least) >= stands*float64(f.nearRTT) && f.packetsWait(f.least)
}

// queued reports whether a window or a buffer holds the sender back only because a queue on the
// path is full of what it let through: a larger one would lengthen the queue. A few segments
// that wait for delayed acknowledgements are no queue, and hosts that are short of processor time
// handle packets late.
func (f features) queued() bool {
	idle, ok := f.idle.Get()
	enough := shortQueueWait
	for _, e := range []End{f.Sender, f.Receiver} {
		if f.crowded(e) {
			return false
		}
		if f.busy(e) {
			enough = hostWait
		}
	}
	return ok && idle < idleShare && f.stands() && f.least-f.nearRTT >= enough && f.TCP.RTT.Or(0) >= time.Duration(queuedSegments*float64(f.packetTime()))
}

// packetsWait reports whether a round trip exceeds the least one by so much that packets wait,
// and it is not the millisecond resolution of the timestamps (RFC 7323 section 5.4).
func (f features) packetsWait(rtt time.Duration) bool {
	return float64(rtt-f.nearRTT) >= fewPackets*float64(f.packetTime())+float64(time.Millisecond)
}

// inBursts reports whether a short queue dropped the ends of bursts, in the window or before
// it.
func (f features) inBursts() bool {
	_, _, began := f.beganInBurst()
	return began || f.losesBursts()
}

// beganInBurst reports whether slow start ended in the loss of many segments at once, though
// the path was never full, no packet waited in a queue, and a queue of one round trip would
// have dropped many more: each round trip of slow start sends twice what the path returned
// before, so that it overshoots by about what path and queue hold. Independent losses end it
// with one or two segments.
func (f features) beganInBurst() (lost, times float64, ok bool) {
	c, known := f.Ceiling.Get()
	sack, reported := f.TCP.SACK.Get()
	measured := f.Sampled(f.Sender.Host, model.Retransmits)
	if !known || !reported || !sack || f.paced() || f.nearRTT <= 0 || f.signs.Or(0) >= fewSigns || len(measured) == 0 {
		return 0, 0, false
	}
	var trip, window, rate, timers float64
	for _, s := range f.Samples {
		before := s.Omitted || s.Direction == "" && s.Start < measured[0].Start
		switch at := s.Host; {
		case !before || s.Direction != "" && s.Direction != f.Direction:
		case at == f.Receiver.Host && s.Metric == model.Goodput:
			rate = max(rate, s.Value)
		case at != f.Sender.Host:
		case s.Metric == model.Retransmits:
			lost += s.Value
		case s.Metric == "tcp_recoveries":
			times += s.Value
		case s.Metric == "tcp_timeouts":
			timers += s.Value
		case s.Metric == model.RTT:
			trip = max(trip, s.Value)
		case s.Metric == model.Cwnd:
			window = max(window, s.Value)
		}
	}
	segment := float64(max(1, f.TCP.MSS.Or(fullMSS)))
	if measured[0].Length > tenTrips*f.nearRTT && window/segment*math.Pow(2, times) >= f.held() {
		return 0, 0, false // a queue may have filled and drained unseen in such an interval
	}
	single := times * (1 + f.events.Or(0)*2*window/segment) // the window was about twice as large before
	return lost, times, times > 0 && timers == 0 && lost >= max(fewBursts, burstLosses*single, single+3*math.Sqrt(single)) &&
		lost < shortBurst*f.held() && rate < touched*float64(c) && trip < standing*f.nearRTT.Seconds()
}

// held returns how many segments the path holds; 0 if its ceiling is unknown.
func (f features) held() float64 {
	return float64(limits.WindowFor(f.Ceiling.Or(0), f.nearRTT)) / float64(max(1, f.TCP.MSS.Or(fullMSS)))
}

// losesBursts reports whether segments are lost several at a time, where independent losses
// come singly: a short queue drops the end of each burst that finds it full. It needs SACK,
// without which TCP retransmits segments that have arrived.
func (f features) losesBursts() bool {
	slowed, again := f.slowed.Or(0), f.TCP.Retransmits.Or(0)
	if sack, known := f.TCP.SACK.Get(); !known || !sack || slowed < 2 || again < fewBursts || f.signs.Or(0) >= fewSigns {
		return false
	}
	if f.Sender.Counters.Moved("tcp_retransmitted").Or(0) > again {
		slowed-- // at least one of them was before the window
	}
	held := float64(f.TCP.Cwnd.Or(0)) / float64(max(1, f.TCP.MSS.Or(fullMSS)*f.Streams))
	return float64(again) >= burstLosses*(1+f.events.Or(0)*held)*float64(slowed)
}

// onlyBursts reports whether paced datagrams get through although, by TCP's losses, many should
// not: then a queue drops the end of bursts, not a bad cable. Few datagrams count only if packets
// of TCP wait at times, as they do in such a queue.
func (f features) onlyBursts() bool {
	var lost, all float64
	for _, r := range rungs(f.Beside.Ladder) {
		if float64(r.Sent) <= nearBound*float64(f.Goodput) {
			lost, all = lost+float64(r.Lost), all+float64(r.Lost+r.Got)
		}
	}
	expected := all * f.resent.Or(0)
	return (expected >= manySigns || expected >= fewSigns && f.queue.Or(0) >= bbrWaits) && lost < burstShare*expected
}

// shortQueue is rule B06 for a path whose own queue drops: the flow fills the path at times,
// and its losses then cost it more than the queue holds.
func shortQueue(f features) (*finding, bool) {
	if f.paced() {
		return f.shortUnderBBR()
	}
	p, _, ok := f.lossRate()
	lost, recoveries, began := f.beganInBurst()
	bursts := f.onlyBursts()
	switch {
	case !ok && !began, !f.pathBound(), f.full.Or(0) >= nearlyFull, f.stands(), f.reorders():
		return nil, false
	case f.longQueue() && (!bursts || f.packetsWait(f.TCP.RTT.Or(0))): // below a millisecond only datagrams tell
		return nil, false
	case f.peak.Or(0) < touched && !bursts && !f.inBursts():
		return nil, false
	}
	b := f.found("", "short queue on the path").kind(model.FindingOutside)
	if bursts {
		b.because("paced UDP at several rates, TCP_INFO", "evenly sent datagrams arrive, and of the segments of TCP, which come in bursts, %.2g %% are lost", 100*f.resent.Or(0))
	}
	if f.peak.Or(0) >= touched {
		b.because("goodput in the intervals, TCP_INFO", "at best %.0f %% of the ceiling were reached, and then packets were dropped: %.2g %% of the segments were losses", 100*f.peak.Or(0), 100*p)
	}
	if began {
		b.because("retransmits, tcp_recoveries of the warm-up", "slow start ended in the loss of %.0f segments in %s, of the %d that the path holds, while no queue stood: a queue of one round trip bears more", lost, plain.Count(int64(recoveries), "burst"), int(f.held()))
	}
	if f.losesBursts() {
		b.because("TCP_INFO total_retrans, tcp_recoveries", "%.1f segments are lost each time that any is: the end of bursts that find a queue full, and no single losses", float64(f.TCP.Retransmits.Or(0))/float64(f.slowed.Or(1)))
	}
	return b.
		explains(f.explainedBy1()).misses(len(f.Beside.Ladder) > 0, "whether the path carries its full rate without losses", ByCheck).
		helps("tcp.congestion_control").noKnob("a queue on the way that holds less than one round trip of data: make it longer there, or use a congestion control that paces, such as bbr"), true
}
