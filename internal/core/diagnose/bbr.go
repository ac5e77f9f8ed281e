package diagnose

import (
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// The rules based on bbr's own model of the path: bbr follows none of the loss formulas
// (diagnosis-2.md section 2).

// believed is bbr's model of a path that alone can limit it.
type believed struct {
	rate  units.BitRate // bbr's estimate of the path's rate
	share float64       // of the ceiling
	lost  float64       // retransmitted segments over all
	empty time.Duration // least round trip; 0 if unknown
	waits bool          // packets wait on the path
}

// lossy reports whether too much is lost for bbr to keep its rate. The receiver's window then
// fills with what arrived after the holes.
func (f features) lossy() bool { return f.paced() && f.resent.Or(0) >= bbrBears }

// believes returns bbr's model if bbr reports it and no program, window, buffer or processor
// limits the flow.
func (f features) believes() (believed, bool) {
	ceiling, known := f.Ceiling.Get()
	if f.TCP.BBR == nil || !known || ceiling <= 0 {
		return believed{}, false
	}
	rate, reported := f.TCP.BBR.Rate.Get()
	_, shut := f.windowed()
	if idle, timed := f.idle.Get(); !reported || rate <= 0 || !timed || idle >= idleShare || f.sndbuf.Or(0) >= limitedShare || shut ||
		f.rwnd.Or(0) >= limitedShare && !f.lossy() || f.crowded(f.Sender) || f.crowded(f.Receiver) {
		return believed{}, false
	}
	rtt, empty := f.TCP.RTT.Or(0), f.TCP.BBR.RTTMin.Or(f.nearRTT)
	if f.nearRTT > 0 {
		empty = min(empty, f.nearRTT) // bbr's own queue may hold up all round trips that bbr remembers
	}
	return believed{
		rate: rate, share: float64(rate / ceiling), lost: f.resent.Or(0), empty: empty,
		waits: empty > 0 && float64(rtt) >= bbrWaits*float64(empty) && f.packetsWait(rtt),
	}, true
}

// drains reports whether bbr fills the path but for one interval, or two, in which it let the path drain
// to measure the least round trip: 200 ms and a round trip of nearly nothing, every 10 s
// (BBRProbeRTTDuration of draft-ietf-ccwg-bbr).
func (f features) drains() bool {
	m, ok := f.believes()
	return ok && m.share >= fullPath && m.lost < bbrDrops && f.full.Or(0) >= refutes && f.others.Or(0) >= fullPath
}

// lossUnderBBR is rule B10 of a sender that uses bbr.
func lossUnderBBR(f features) (*finding, bool) {
	m, ok := f.believes()
	if !ok || f.full.Or(0) >= nearlyFull || f.together() { // independent losses slow each connection down
		return nil, false
	}
	b := f.found(f.Sender.Host, "packet loss").explains(f.explainedBy1()).
		misses(len(f.Beside.Ladder) > 0, "whether the losses come with any rate, or from one rate on", ByCheck).
		noKnob(FindLoss + "; no congestion control bears so much")
	most, bound := f.TCP.BBR.InFlight.Get()
	held := f.held() * float64(f.Streams)
	switch {
	case bound && (m.lost >= bbrThreshold || f.held() < bbrSmall && m.lost >= bbrThreshold/10) && float64(most) < nearlyFull*held:
		return b.because("TCP_INFO total_retrans, TCP_CC_INFO inflight_hi", "%.2g %% of the segments were lost, and this version of bbr takes more than 2 %% for a full path: it puts no more than %d segments under way, of the %.0f that the path holds", 100*m.lost, most, held), true
	case m.lost >= bbrBears && !f.cutsOnly(m):
		gains := "it hardly gets faster again"
		if bbrTries*(1-m.lost) < 1 {
			gains = "each try takes it further down"
		}
		b.because("TCP_INFO total_retrans, TCP_CC_INFO bbr_bw", "%.2g %% of the segments were lost: bbr tries %.2f times its rate at times, of which %.2f times its rate arrive: %s", 100*m.lost, bbrTries, bbrTries*(1-m.lost), gains)
		if len(f.Beside.Ladder) == 0 {
			b.also("or a policer drops what is too fast: linerate check tells which")
		}
		return b, true
	case f.overfills(m) && !f.cutsOnly(m):
		return b.because("TCP_INFO total_retrans, TCP_CC_INFO bbr_bw", "bbr fills the path as it sees it (%s), and %.2g %% of what it sends is lost", m.rate, 100*m.lost), true
	}
	return nil, false
}

// overfills reports whether bbr fills the path as it sees it, and loses some of what it sends.
func (f features) overfills(m believed) bool {
	return m.lost >= bbrDrops && m.lost < bbrBears && m.share >= nearlyFull && float64(f.Goodput) >= refutes*float64(f.Ceiling.Or(0))*(1-m.lost)
}

// shortUnderBBR is rule B06 for a queue that bbr overfills, where evenly sent datagrams arrive:
// the packets are lost to bbr's own rate, not to the wire.
func (f features) shortUnderBBR() (*finding, bool) {
	m, ok := f.believes()
	if !ok || f.full.Or(0) >= nearlyFull || f.together() || !f.overfills(m) || !f.cutsOnly(m) {
		return nil, false
	}
	return f.found("", "short queue on the path").kind(model.FindingOutside).
		because("paced UDP at several rates, TCP_INFO total_retrans, TCP_CC_INFO bbr_bw", "bbr fills the path as it sees it (%s), and %.2g %% of what it sends is lost; evenly sent datagrams arrive", m.rate, 100*m.lost).
		explains(f.explainedBy1()).noKnob("a queue on the way that is too short for the bursts of bbr: make it longer there"), true
}

// cutsOnly reports whether paced datagrams get through at some rate and all below it, up to
// bbr's own: then a policer drops packets, not a bad cable.
func (f features) cutsOnly(m believed) bool {
	var lost, all float64
	for _, r := range rungs(f.Beside.Ladder) {
		lost, all = lost+float64(r.Lost), all+float64(r.Lost+r.Got)
		if r.Sent <= m.rate && all*m.lost >= manySigns && lost < m.lost*all/10 {
			return true
		}
	}
	return false
}

// stageUnderBBR names what is slower than the link if bbr found a lower rate.
func (b *finding) stageUnderBBR(m believed) (*finding, bool) {
	f := b.f
	if m.share >= nearlyFull || m.lost >= bbrBears && !f.cutsOnly(m) || f.growth.Or(1) >= rising || float64(f.Goodput) < refutes*float64(m.rate) {
		return nil, false
	}
	const source = "TCP_CC_INFO bbr_bw, TCP_INFO rtt, total_retrans"
	switch rtt := f.TCP.RTT.Or(0); {
	case m.waits:
		b.because(source, "bbr finds %s on the way, and packets wait there (%s instead of %s)", m.rate, units.FormatDuration(rtt), units.FormatDuration(m.empty))
	case m.lost >= bbrDrops:
		b.Limit = "a policer on the path"
		if f.spread.Or(1) > steady {
			b.Limit = "a policer or a very short queue on the path"
		}
		b.because(source, "bbr finds %s on the way, and %.2g %% of the segments are cut away without ever waiting", m.rate, 100*m.lost)
	default:
		return nil, false
	}
	return b, true
}
