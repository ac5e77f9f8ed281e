package diagnose

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// The rules about the path between the hosts.

// deadDirection is the first finding if nothing arrives, or nothing after the first packets
// (diagnosis.md section 4.0, rule 5). If small packets still arrive, it is a black hole for
// large ones, M2 or M3 of section 6.1.
func deadDirection(f features) (*finding, bool) {
	if f.Goodput > 0 || f.Run == nil || f.Receiver.Flow == nil || f.Sender.Report == nil {
		return nil, false
	}
	if m, ok := duplex(f); ok && m.Rule == "B02" { // it is certain, and loses full frames until TCP hardly retries
		m.also("and nothing of the payload arrived")
		m.Explains = fact.Known(1.0, "nothing arrives")
		return m, true
	}
	size, tried := f.Beside.Arrives.Get()
	asked := f.largest()
	small := tried && size > 0 || f.answered()
	b := f.found("", "dead direction")
	switch {
	case tried && size > 0:
		b.Rule = "M2"
		b.because("packets of many sizes", "IP packets of %d bytes arrive and larger ones vanish, up to the %d that the hosts send", size, asked)
	case small:
		b.Rule = "M2"
		b.because("probes beside the load", "connections open and small packets are answered, and no full packet (%d bytes) arrives: large ones vanish on the way", asked).
			misses(false, "the largest size that passes", ByCheck)
	default:
		b.because("bytes at the receiver", "connections open, and not one byte of payload arrives").
			misses(false, "whether small packets pass", ByCheck)
	}
	if b.Rule == "M2" {
		b.Limit = "packets that are too large for the path"
		if reported, known := f.Beside.TooBigReported.Get(); known && !reported {
			b.also("and no router says so: a black hole")
		}
		b.helps("link.mtu", "tcp.mtu_probing").noKnob("raise the MTU of what lies between the hosts; until then a smaller link.mtu or route.mtu at both hosts, or tcp.mtu_probing at the sender")
	} else {
		b.noKnob("look for a firewall, a one-way link or a wrong route between the hosts")
	}
	if n := f.Sender.Counters.Sum("tcp_timeouts", "tcp_retransmitted").Or(0); n > 0 {
		b.because("tcp_timeouts, tcp_retransmitted of the sender", "the sender gave up waiting or sent again %s", times(n))
	}
	b.Explains = fact.Known(1.0, "nothing arrives")
	return b, true
}

// largest returns the largest IP packet that the hosts send to each other.
func (f features) largest() int {
	return min(f.Sender.Facts.MTU.Or(1500), f.Receiver.Facts.MTU.Or(1500))
}

// answered reports whether small probes were answered under load.
func (f features) answered() bool {
	for _, e := range []End{f.Sender, f.Receiver} {
		if e.Report == nil {
			continue
		}
		for _, l := range e.Report.Latencies {
			if strings.HasPrefix(l.Name, "loaded") && l.Sent > 0 && l.Lost < l.Sent/2 {
				return true
			}
		}
	}
	return false
}

// shaper is rule B06 for a limit in the sender's own host.
func shaper(f features) (*finding, bool) {
	kind := f.Sender.Facts.Qdisc.Or("")
	held, ok := f.Sender.Counters.Moved("qdisc_overlimits").Get()
	if !ok || float64(held) < max(fewSigns, heldBack*float64(f.TCP.SegmentsOut.Or(0))) || f.full.Or(0) >= nearlyFull || !slices.Contains([]string{"tbf", "htb", "hfsc", "cake", "cbq", "netem"}, kind) {
		return nil, false
	}
	b := f.found(f.Sender.Host, "shaper of its own").
		because("qdisc_overlimits", "the queueing discipline %s of the sender's interface held packets back %s", kind, times(held)).
		allows(f.Goodput, "measured through the shaper").helps("qdisc")
	if n := f.Sender.Counters.Moved("qdisc_dropped").Or(0); n > 0 {
		b.because("qdisc_dropped", "and dropped %s", plain.Count(n, "packet"))
	}
	return b, true
}

// slowStage is rule B06: a stage of the path carries less than the link. Either a ladder of
// rates shows it, or packets wait somewhere at a steady rate, or a policer drops the excess.
func slowStage(f features) (*finding, bool) {
	most, reached := f.kneeReached()
	bound := f.pathBound() || f.queued()
	if !bound && !reached || f.full.Or(1) >= nearlyFull && f.full.IsKnown() {
		return nil, false
	}
	for _, more := range []look{shaper, radio, sharedMedium, ackLimited, behindData} {
		if b, ok := more(f); ok && b.Kind != model.FindingBeside {
			return nil, false // it names the queue or the cause
		}
	}
	if f.load(f.Sender).stopped.Or(0) >= limitedShare || f.load(f.Receiver).stopped.Or(0) >= limitedShare {
		return nil, false // between its stops the program sends bursts, which a queue loses, and UDP does no better
	}
	b := f.found("", "a slower stage on the path").kind(model.FindingOutside).
		noKnob("a faster link, or more from the shaper, policer or contract between the hosts")
	if rate, ok := f.ladderKnee(); ok {
		if float64(f.Goodput) < refutes*float64(rate) {
			return nil, false // the path carries more than TCP's rate
		}
		hosts := "and the hosts dropped none of it"
		if f.unseen() {
			hosts = "though what the receiving host itself drops is not known"
		}
		return b.because("paced UDP at several rates", "no more than %s of UDP arrive, however fast it is sent, %s", rate, hosts).
			allows(max(rate, f.Goodput), "knee of the UDP ladder"), true
	}
	if !bound {
		return b.because("paced UDP at several rates, the other way", "no more than %s of UDP arrive the other way, however fast it is sent, and this way no more than %s", most, max(f.Goodput, f.mostDatagrams())).
			allows(f.Goodput, "measured"), true
	}
	if f.crowded(f.Receiver) || f.crowded(f.Sender) || !f.full.IsKnown() {
		return nil, false
	}
	if _, lost := flapped(f); lost {
		return nil, false // the rate is a mean that includes time without a link, when packets waited
	}
	if f.together() {
		if f.resent.Or(0) >= policedShare {
			b.Limit = "a policer on the path"
		}
		return b.because("several connections at once", "%d connections together carry %s, and one alone %s", f.Beside.Streams, f.Beside.Several.Or(0), f.Goodput).
			because("TCP_INFO total_retrans", "%.2g %% of the segments were sent again", 100*f.resent.Or(0)).allows(f.Goodput, "measured"), true
	}
	level := f.spread.Or(1) <= steady
	m, tells := f.believes()
	switch {
	case f.stands():
		b.because("TCP_INFO rtt in the intervals", "packets wait on the way all the time, at the least %s instead of %s: something there is never idle, and carries %s", units.FormatDuration(f.least), units.FormatDuration(f.nearRTT), f.Goodput)
	case level && f.queue.Or(1) >= standing && f.packetsWait(f.TCP.RTT.Or(0)):
		b.because("TCP_INFO rtt over min_rtt", "packets wait on the way (%s instead of %s) while the rate stands still at %s", units.FormatDuration(f.TCP.RTT.Or(0)), units.FormatDuration(f.nearRTT), f.Goodput)
	case f.Place.Kind == model.PlaceLink:
		b.because("goodput", "the path carries %s", f.Goodput)
	case tells:
		if b, ok := b.stageUnderBBR(m); !ok {
			return b, ok
		}
	case level && f.resent.Or(0) >= policedShare:
		b.Limit = "a policer on the path"
		b.because("TCP_INFO total_retrans", "%.2g %% of the segments are cut away without ever waiting, while the rate stands still at %s", 100*f.resent.Or(0), f.Goodput)
	default:
		return nil, false
	}
	b.misses(false, "whether UDP meets the same rate", ByCheck)
	if o, measured := f.atOnce(); !measured {
		b.also("or %s that both directions share: linerate check tells which", o.To+o.From)
	}
	for _, e := range []End{f.Sender, f.Receiver} {
		if bus, ok := e.sharedBus(); ok && !f.Beside.Together.IsKnown() {
			b.kind(model.FindingLimit).misses(false, "whether that stage is the "+bus.name+" of "+f.part(e), ByCheck)
		}
	}
	return b.allows(f.Goodput, "measured"), true
}

// together reports whether several simultaneous connections carry as much as one and no more:
// they share the limit, so it is neither a window nor loss.
func (f features) together() bool {
	several, ok := f.Beside.Several.Get()
	return ok && f.Beside.Streams > 1 && float64(several) <= sharedSum*float64(f.Goodput) && float64(several) >= refutes*float64(f.Goodput)
}

// fullMSS is the payload of a packet of 1500 bytes with timestamps.
const fullMSS = 1448

// packetTime returns how long a full packet takes at the measured rate.
func (f features) packetTime() time.Duration { return packetTime(f.TCP.MSS.Or(fullMSS), f.Goodput) }

// packetTime returns how long a packet with mss bytes of payload takes at rate; 0 if rate is 0.
func packetTime(mss int, rate units.BitRate) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(float64(mss) * 8 / float64(rate) * float64(time.Second))
}

// rungs returns those of a ladder that compare with TCP, without small datagrams, the slowest
// first.
func rungs(ladder []Rung) []Rung {
	all := slices.DeleteFunc(slices.Clone(ladder), func(r Rung) bool { return r.Sent <= 0 || r.Size < smallFrame })
	slices.SortFunc(all, func(a, b Rung) int { return cmp.Compare(a.Sent, b.Sent) })
	return all
}

// ladderKnee returns the highest received rate of paced UDP, if more was sent and the hosts did
// not drop it. Where TCP is faster, the path is not what loses the datagrams.
func (f features) ladderKnee() (units.BitRate, bool) {
	rate, ok := kneeOf(f.Beside.Ladder, f.Ceiling)
	return rate, ok && float64(f.Goodput) <= nearBound*float64(rate)
}

// unseen reports whether the receiver did not report what its sockets dropped of paced UDP.
func (f features) unseen() bool {
	return slices.ContainsFunc(f.Beside.Ladder, func(r Rung) bool { return r.Unseen })
}

// kneeOf takes a rate for too fast only if it loses more than the slowest one does: a share that
// is lost at any rate is no knee.
func kneeOf(ladder []Rung, ceiling fact.Of[units.BitRate]) (units.BitRate, bool) {
	all := rungs(ladder)
	var most units.BitRate
	var anyway float64
	over := false
	for i, r := range all {
		most = max(most, r.Received)
		lost := float64(r.Sent-r.Received) / float64(r.Sent)
		if i == 0 && len(all) > 1 {
			anyway = lost
		}
		over = over || lost > max(1-knee, 2*anyway) && float64(r.Host) < hostDrops*float64(r.Lost)
	}
	c, known := ceiling.Get()
	return most, over && most > 0 && (!known || float64(most) < nearlyFull*float64(c))
}

// kneeReached returns the most that paced UDP gets through, if the sender always had data and
// TCP is about as fast, so that a larger window gains nothing. If this direction's datagrams do
// not show it, and are no faster than TCP, it is the other direction's.
func (f features) kneeReached() (units.BitRate, bool) {
	rate, ok := f.ladderKnee()
	if !ok && f.mostDatagrams() <= nearBound*f.Goodput {
		rate, ok = kneeOf(f.Beside.LadderBack, f.Back)
	}
	return rate, ok && f.idle.Or(1) < idleShare && f.Goodput >= nearlyFull*rate && f.Goodput <= nearBound*rate
}

// smallPackets is rule B29: packets carry so little that headers and the work per packet cost
// more than the payload.
func smallPackets(f features) (*finding, bool) {
	mss, ok := f.TCP.MSS.Get()
	if !ok || f.Run == nil {
		return nil, false
	}
	mean := float64(mss)
	if out := f.Sender.Flow; out != nil && f.TCP.SegmentsOut.Or(0) > 0 && out.Bytes > 0 {
		mean = min(mean, float64(out.Bytes)/float64(f.TCP.SegmentsOut.Or(1)))
	}
	full := limits.Wire{Rate: 1, MTU: 1500, Timestamps: f.TCP.Timestamps.Or(true)}
	most, err := full.Payload()
	if err != nil || mean > smallPacket*float64(most) {
		return nil, false
	}
	b := f.found(f.Sender.Host, "small packets").
		because("bytes over TCP_INFO segs_out", "a packet carries %.0f bytes of payload, of the %d that one of 1500 bytes does", mean, most)
	mtu := f.largest()
	switch {
	case f.Run.Flow.Block > 0 && float64(f.Run.Flow.Block) < smallPacket*float64(mss):
		b.also("the program writes %s at a time", f.Run.Flow.Block).noKnob("larger writes, or let the system gather small ones (--nagle)")
	case f.Run.Flow.MSS > 0 && float64(f.Run.Flow.MSS) < smallPacket*float64(most):
		b.also("the test asked for a segment size of %d (-M)", f.Run.Flow.MSS)
	case float64(mtu) < smallPacket*1500:
		at := f.Sender
		if f.Receiver.Facts.MTU.Or(1500) < f.Sender.Facts.MTU.Or(1500) {
			at = f.Receiver
		}
		b.Host = at.Host
		b.also("the MTU of the interface is %d", mtu).helps("link.mtu")
	default:
		return nil, false
	}
	if f.full.Or(0) >= nearlyFull || !f.full.IsKnown() {
		return b.kind(model.FindingBeside), true
	}
	return b.explains(f.explainedBy1()), true
}

// bloat is rule B30: a queue on the path delays all packets. It does not limit the rate.
func bloat(f features) (*finding, bool) {
	loaded, idle := f.TCP.RTT.Or(0), f.nearRTT
	source := "TCP_INFO rtt over min_rtt"
	if l, ok := f.Beside.Loaded.Get(); ok && f.Beside.Idle.IsKnown() {
		loaded, idle, source = l, f.Beside.Idle.Or(0), "probes with and without load"
	}
	added := loaded - idle
	least := 5 * time.Millisecond // diagnosis.md B30: of a local network
	if idle > 2*time.Millisecond {
		least = 100 * time.Millisecond // of a wide one
	}
	if idle <= 0 || added < least || float64(added) < bloatTrips*float64(idle) || float64(added) < bloatPackets*float64(f.packetTime()) {
		return nil, false
	}
	if f.starved(f.Sender) || f.starved(f.Receiver) || f.full.Or(0) < nearlyFull && f.full.IsKnown() {
		return nil, false // a wait for a processor or behind a slower stage has its own finding
	}
	return f.found("", "queue that is too long").kind(model.FindingBeside).
		because(source, "under load the round trip grows from %s to %s", units.FormatDuration(idle), units.FormatDuration(loaded)).
		helps("qdisc", "tcp.congestion_control").
		noKnob("the queue is in a device on the way: shape a little below its rate with fq_codel or cake, or use a congestion control that does not fill queues"), true
}

// tunnel is rule B41.
func tunnel(f features) (*finding, bool) {
	for _, e := range []End{f.Sender, f.Receiver} {
		nic, ok := e.NIC()
		if !ok || !slices.Contains([]string{"wireguard", "vxlan", "gre", "gretap", "ipip", "sit", "geneve", "tun", "ip6tnl"}, nic.Kind.Or("")) || f.full.Or(0) >= nearlyFull {
			continue
		}
		return f.found(e.Host, "tunnel").kind(model.FindingBeside).
			because("facts", "the traffic passes %s, a tunnel (%s) with an MTU of %d: its own work and headers are part of what was measured", nic.Name, nic.Kind.Or(""), nic.MTU.Or(0)).
			noKnob("measure the path below the tunnel as well, to tell the two apart"), true
	}
	return nil, false
}

// mismatch is M1 of section 6.1, and M8: the path carries only smaller packets than the
// interfaces send.
func mismatch(f features) (*finding, bool) {
	a, ok1 := f.Sender.Facts.MTU.Get()
	b, ok2 := f.Receiver.Facts.MTU.Get()
	if !ok1 || !ok2 {
		return nil, false
	}
	path, known := f.TCP.PathMTU.Get()
	least := min(a, b, math.MaxUint16) // the interface lo has 65536, and an IP packet at most 65535 bytes (RFC 791 section 3.1)
	switch {
	case a != b && (a > 1500 || b > 1500):
		at := f.Sender.Host
		if b < a {
			at = f.Receiver.Host
		}
		m := f.found(at, "MTU").kind(model.FindingBeside).
			because("facts", "the MTU is %d at the sender and %d at the receiver: TCP copes, large datagrams of the one with the larger MTU vanish", a, b).helps("link.mtu")
		m.Rule = "M1"
		return m, true
	case known && path < least && f.Run.Flow.MSS == 0:
		m := f.found("", "MTU of the path").kind(model.FindingBeside).
			because("TCP_INFO pmtu", "the path carries packets of %d bytes, and the interfaces %d", path, least).
			noKnob("a larger MTU of the tunnel or link on the way that is too small; a value that the kernel remembers goes away with ip route flush cache")
		m.Rule = "M8"
		return m, true
	}
	return nil, false
}

// wrongCeiling is rule B32: the measured rate exceeds the ceiling.
func wrongCeiling(f features) (*finding, bool) {
	if !f.Path.Refuted(f.Goodput) {
		return nil, false
	}
	return f.found("", "rate of the link").kind(model.FindingNotFound).
		because("goodput over "+f.Path.Rate.Source(), "%s were measured where %s should be the most: the rate of the link is not what it is said to be", f.Goodput, f.Path.Rate.Or(0)), true
}

// layer is rule B43.
func layer(f features) (*finding, bool) {
	for _, e := range []End{f.Sender, f.Receiver} {
		kernel := strings.ToLower(e.Facts.Kernel.Or(""))
		virtual := ""
		if e.Facts.Machine != nil {
			virtual = e.Facts.Machine.Virtual.Or("")
		}
		what := ""
		switch {
		case strings.Contains(kernel, "microsoft"):
			what = "the Windows Subsystem for Linux"
		case strings.Contains(kernel, "linuxkit"):
			what = "the virtual machine of Docker Desktop"
		}
		if what == "" || f.full.Or(0) >= nearlyFull {
			continue
		}
		return f.found(e.Host, "layer in between").kind(model.FindingBeside).
			because("facts", "linerate runs inside %s (%s): what was measured is that layer too", what, cmp.Or(virtual, "virtual")).
			noKnob("run linerate on the system itself to measure the network"), true
	}
	return nil, false
}
