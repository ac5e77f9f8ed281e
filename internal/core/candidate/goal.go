package candidate

import (
	"math/bits"
	"slices"
	"strconv"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// The rules named by candidates of goals other than the rate: these goals do not concern a
// limit of the rate, so no finding stands behind them.
const (
	QueueRule = "B30" // latency under load: packets wait
	WorkRule  = "B16" // processor time for each bit
)

// The settings proposed for other goals, in addition to those for the rate.
const (
	qdisc       model.KnobID = "qdisc"
	adaptiveRx  model.KnobID = "nic.coalesce.adaptive_rx"
	joinRx      model.KnobID = "nic.offload.gro"
	checkRx     model.KnobID = "nic.offload.rx_csum"
	checkTx     model.KnobID = "nic.offload.tx_csum"
	segment     model.KnobID = "nic.offload.tso"
	segmentSoft model.KnobID = "nic.offload.gso"
)

// GoalKnobs lists every setting that a candidate for another goal may change.
func GoalKnobs() []model.KnobID {
	return append([]model.KnobID{qdisc, congestion, recvBuffer, sendBuffer, adaptiveRx, linkMTU}, append(receiverWork(), senderWork()...)...)
}

// receiverWork and senderWork are the offloads that save processor time at a receiver and a
// sender: one large packet passes through the stack in place of many.
func receiverWork() []model.KnobID { return []model.KnobID{joinRx, checkRx} }

func senderWork() []model.KnobID {
	return []model.KnobID{checkTx, segment, segmentSoft}
}

// ownQueues are the queueing disciplines with a single queue that may grow: each new packet
// waits behind all of it.
func ownQueues() []string { return []string{"pfifo_fast", "pfifo", "bfifo"} }

// fair is a queueing discipline that serves flows in turn and keeps its queue short
// (RFC 8290).
const fair = "fq_codel"

// smallerBuffers is the number of levels below the present buffer size (p).
const smallerBuffers = 3

// Latency returns the settings worth a try against latency under load in direction d: those
// that pace the sender, serve small packets first, or limit the data in flight to what the path
// needs. The mildest value of a size comes first.
func Latency(s *model.Session, d model.Direction) []Candidate {
	g := given{s: s, f: model.Finding{Rule: QueueRule, Direction: d, Host: d.Sender()}, ceiling: limits.OfPath(s, d).Rate, rtt: limits.LeastRTT(s)}
	var out []Candidate
	if now, known := g.knob(d.Sender(), congestion).Get(); known && now != "bbr" {
		out = append(out, g.algorithm()...)
	}
	if now := g.knob(d.Sender(), qdisc).Or(""); slices.Contains(ownQueues(), now) {
		out = append(out, g.candidate(qdisc, fair, g.ceiling, d.Sender()))
	}
	out = append(out, g.smaller(d.Receiver(), recvBuffer)...)
	return append(out, g.smaller(d.Sender(), sendBuffer)...)
}

// smaller proposes buffers at host h that hold little more than the path needs: a queue cannot
// exceed the data in flight.
func (g given) smaller(h model.Host, id model.KnobID) []Candidate {
	now, err := strconv.ParseInt(g.knob(h, id).Or(""), 10, 64)
	ceiling, ok1 := g.ceiling.Get()
	rtt, ok2 := g.rtt.Get()
	if err != nil || !ok1 || !ok2 {
		return nil
	}
	window := limits.WindowFor(ceiling, rtt)
	if window > enoughBuffer {
		return nil // no buffer is too large for such a path
	}
	least := units.Bytes(1) << bits.Len64(uint64(max(1, window*bookkeeping-1)))
	var out []Candidate
	for i := smallerBuffers - 1; i >= 0; i-- {
		size := least << i
		if size > units.Bytes(now)/2 {
			continue
		}
		c := g.candidate(id, strconv.FormatInt(int64(size), 10), g.bound(size/bookkeeping), h)
		c.Caution = "it holds for every connection of that host, also for those over longer paths"
		out = append(out, c)
	}
	return out
}

// CPU returns the settings worth a try against the processor time that traffic in direction d
// costs at host h, by handling more data per call.
func CPU(s *model.Session, d model.Direction, h model.Host) []Candidate {
	g := given{s: s, f: model.Finding{Rule: WorkRule, Direction: d, Host: h}, ceiling: limits.OfPath(s, d).Rate, rtt: limits.LeastRTT(s)}
	unknown := fact.Unknown[units.BitRate]("it saves work; the rate is not what it is for")
	ids := receiverWork()
	if h == d.Sender() {
		ids = senderWork()
	}
	var out []Candidate
	for _, id := range append(ids, adaptiveRx) {
		if g.knob(h, id).Or("") == off {
			out = append(out, g.candidate(id, on, unknown, h))
		}
	}
	if h == d.Sender() && g.knob(h, congestion).Or("") == "bbr" { // bbr paces, with a timer for each burst
		out = append(out, g.candidate(congestion, "cubic", unknown, h))
	}
	if h == d.Receiver() { // the sender decides the size of its segments
		for _, id := range []model.KnobID{segment, segmentSoft} {
			if g.knob(d.Sender(), id).Or("") == off {
				out = append(out, g.candidate(id, on, unknown, d.Sender()))
			}
		}
	}
	return append(out, g.mtu()...)
}
