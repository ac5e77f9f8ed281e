package diagnose

import (
	"fmt"
	"slices"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// The rules about the reverse direction, which carries the acknowledgements, and about both
// directions at once (diagnosis-2.md sections 1 and 3).

// ackLimited is rule R01: the acknowledgements of a fast direction fill the slow one, and the
// sender may send no faster than they arrive.
func ackLimited(f features) (*finding, bool) {
	perSecond, each := f.acks()
	if each < fewPerAck || f.full.Or(0) >= nearlyFull || !f.pathBound() || f.queue.Or(1) < standing || f.bothAtOnce() {
		return nil, false
	}
	if knee, ok := f.ladderKnee(); ok && float64(knee) <= nearBound*float64(f.Goodput) {
		return nil, false // datagrams, which have no acknowledgements, are no faster
	}
	for _, back := range []fact.Of[units.BitRate]{f.Other, f.Back} {
		least, most := limits.AckLoad(perSecond, f.TCP.PathMTU.Or(0), f.TCP.MSS.Or(0), back.Or(0))
		if most < ackFull || least > overFull {
			continue
		}
		b := f.found("", "narrow way back").kind(model.FindingOutside).
			because("TCP_INFO segs_in", "acknowledgements fill the way back, which carries %s of data: %.0f a second come through, one for every %.1f segments", back.Or(0), perSecond, each).
			because("TCP_INFO rtt over min_rtt", "they wait there: the round trip is %s instead of %s", units.FormatDuration(f.TCP.RTT.Or(0)), units.FormatDuration(f.nearRTT)).
			noKnob("more rate on the way back, larger packets, or a queue at its narrow place that drops needless acknowledgements (cake ack-filter) or serves connections in turn (fq_codel); a larger window does not help").
			misses(len(f.Beside.Ladder) > 0, "whether datagrams, which need no acknowledgements, come through faster", ByCheck)
		for _, r := range f.Beside.Ladder {
			if float64(r.Received) > nearBound*float64(f.Goodput) && r.Received == f.mostDatagrams() {
				b.because("paced UDP at several rates", "datagrams, which need no acknowledgements, come through at %s", r.Received)
			}
		}
		return b.allows(f.Goodput, "acknowledgements a second, times the segments of each"), true
	}
	return nil, false
}

// acks returns how many acknowledgements per second reach the sender and how many segments each
// covers; 0 if the sender's system does not count them.
func (f features) acks() (perSecond, each float64) {
	n, ok := f.TCP.SegmentsIn.Get()
	mss := float64(f.TCP.MSS.Or(0))
	if !ok || n <= 0 || f.Window <= 0 || mss <= 0 {
		return 0, 0
	}
	perSecond = float64(n) / f.Window.Seconds()
	return perSecond, float64(f.Goodput) / 8 / mss / perSecond
}

// mostDatagrams returns the highest received rate of the paced datagrams.
func (f features) mostDatagrams() (most units.BitRate) {
	for _, r := range f.Beside.Ladder {
		most = max(most, r.Received)
	}
	return most
}

// bothAtOnce reports whether the examined run moved data in both directions.
func (f features) bothAtOnce() bool { return f.Run != nil && f.Run.Flow.Direction == model.Both }

// atOnce returns what this direction and the other one carried at once, and what each carries
// alone: the measured rates or, if the run itself moved data both ways, the links' ceilings.
func (f features) atOnce() (o limits.AtOnce, measured bool) {
	if f.bothAtOnce() {
		back, _ := f.Run.Value(opposite(f.Direction), model.Goodput)
		return limits.AtOnce{To: f.Goodput, From: units.BitRate(back), ToAlone: f.Ceiling.Or(0), FromAlone: f.Back.Or(0)}, false
	}
	return limits.AtOnce{To: f.Beside.Together.Or(0), From: f.Beside.TogetherBack.Or(0), ToAlone: f.Goodput, FromAlone: f.Other.Or(0), Windowed: f.Windowed, Pass: f.Beside.Pass}, true
}

// behindData is rule R01 for two busy directions: acknowledgements of the faster one wait
// behind the data of the slower one ("data pendulum", Heusse and others, CCR 2011).
func behindData(f features) (*finding, bool) {
	o, measured := f.atOnce()
	if o.Sharing() != limits.BehindData || o.ToAlone < o.FromAlone || !f.pathBound() || !measured && f.queue.Or(1) < standing {
		return nil, false
	}
	alone := "alone"
	if !measured {
		alone = "that the link can carry"
	}
	b := f.found("", "data on the way back").kind(model.FindingOutside).
		because("both directions at once", "%s of %s %s arrive while the way back is full (%s of %s): acknowledgements wait behind its data", o.To, o.ToAlone, alone, o.From, o.FromAlone).
		noKnob("a queue at the narrow way back that serves connections in turn (cake, fq_codel), a little below its rate, or less data there meanwhile; a larger window does not help").
		misses(o.Time() > ofTurns || o.Pass.IsKnown(), "whether both directions share one medium, which looks like this between rates so unequal", ByCheck)
	switch {
	case o.Pass.IsKnown():
		b.also("datagrams at three quarters of both rates arrive at once, so that the directions do not take turns on one medium")
	case o.Time() <= ofTurns:
		b.also("or both directions take turns on one medium")
	}
	if measured {
		return b.kind(model.FindingBeside), true
	}
	return b.because("TCP_INFO rtt over min_rtt", "the round trip is %s instead of %s", units.FormatDuration(f.TCP.RTT.Or(0)), units.FormatDuration(f.nearRTT)).
		explains(f.explainedBy1()), true
}

// The bounds of CUBIC's delay threshold in slow start, which is an eighth of the least round
// trip (net/ipv4/tcp_cubic.c, HYSTART_DELAY_THRESH).
const (
	leastDelay = 4 * time.Millisecond
	mostDelay  = 16 * time.Millisecond
)

// leftEarly is rule B14b: CUBIC mistakes varying round trips for a queue, leaves slow start far
// below what the path holds, and then grows by at most a twentieth per round trip (cnt of
// bictcp_update, net/ipv4/tcp_cubic.c [K]).
func leftEarly(f features) (*finding, bool) {
	times := f.Sender.Counters.Moved("tcp_slow_start_left_by_delay").Or(0)
	windows := f.Sender.Counters.Moved("tcp_slow_start_left_windows").Or(0)
	if times < 1 || f.paced() || !f.pathBound() || f.resent.Or(1) >= lossMatters && !f.fullFirst() || f.full.Or(1) >= nearlyFull || f.growth.Or(1) < rising {
		return nil, false
	}
	left, held := float64(windows)/float64(times), f.held()/float64(f.Streams)
	if held <= 0 || left >= earlyExit*held {
		return nil, false
	}
	b := f.found("", "slow start that ended early").
		because("tcp_slow_start_left_by_delay, tcp_slow_start_left_windows", "slow start ended at %.0f segments, because round trips grew and before anything was lost; the path holds %.0f", left, held).
		because("goodput in the intervals", "the rate was %.1f times as high in the last third as in the first", f.growth.Or(1)).
		helps("tcp.congestion_control", "qdisc").
		noKnob("measure for longer (-t 30s); a congestion control that does not leave slow start so (bbr), or packets that leave evenly (the queueing discipline fq)")
	if way, ok := f.jitters(); ok {
		b.also("%s", way).Proof[0].Source += ", one-way delay of datagrams"
	}
	return b.misses(f.Beside.Jitter.IsKnown() && f.Beside.JitterBack.IsKnown(), "in which direction the delay varies", ByCheck).explains(f.explainedBy1()), true
}

// fullFirst reports whether the path was full for a moment before the first loss.
func (f features) fullFirst() bool {
	again := f.Sampled(f.Sender.Host, model.Retransmits)
	for _, s := range f.Sampled(f.Receiver.Host, model.Goodput) {
		if c, ok := f.Ceiling.Get(); ok && s.Value >= touched*float64(c) {
			return len(again) > 0 && !slices.ContainsFunc(again, func(r model.Sample) bool { return r.Value > 0 && r.Start < s.Start })
		}
	}
	return false
}

// jitters names the directions in which the delay varies by more than CUBIC's slow start
// tolerates.
func (f features) jitters() (string, bool) {
	bears := min(max(f.nearRTT/8, leastDelay), mostDelay)
	there, back := f.Beside.Jitter.Or(0), f.Beside.JitterBack.Or(0)
	switch {
	case there > bears && back > bears:
		return fmt.Sprintf("delays vary by %s there and %s on the way back", units.FormatDuration(there), units.FormatDuration(back)), true
	case there > bears:
		return fmt.Sprintf("delays vary by %s, and not on the way back", units.FormatDuration(there)), true
	case back > bears:
		return fmt.Sprintf("delays vary by %s on the way back only", units.FormatDuration(back)), true
	}
	return "", false
}
