package diagnose

import (
	"strconv"
	"strings"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// The rules about the link and the cards at its ends.

// speedOf parses the rate of a Linux link mode: "1000baseT/Full".
func speedOf(mode string) units.BitRate {
	digits := strings.IndexFunc(mode, func(r rune) bool { return r < '0' || r > '9' })
	if digits <= 0 {
		return 0
	}
	n, err := strconv.Atoi(mode[:digits])
	if err != nil {
		return 0
	}
	return units.BitRate(n) * 1e6
}

// slowLink is rule B01: both cards support a higher rate than the link's.
func slowLink(f features) (*finding, bool) {
	both := units.BitRate(0)
	var at End
	var speed units.BitRate
	for i, e := range []End{f.Sender, f.Receiver} {
		nic, ok := e.NIC()
		now, known := nic.Media.Speed.Get()
		if !ok || !known {
			return nil, false
		}
		most := now
		for _, mode := range nic.Media.Supported.Or(nil) {
			most = max(most, speedOf(mode))
		}
		if i == 0 || most < both {
			both = most
		}
		if i == 0 || now < speed {
			at, speed = e, now
		}
	}
	if speed >= both {
		return nil, false
	}
	b := f.found(at.Host, "link speed").kind(model.FindingBeside).
		because("link modes of both cards", "the link runs at %s, and both cards can do %s", speed, both).
		helps("nic.media.autoneg", "nic.eee").noKnob("a cable with two pairs, or an old switch, does no more")
	if f.full.Or(0) < nearlyFull {
		b.misses(false, "the link modes that the switch offers", "ethtool, or the switch itself")
	}
	if wol := at.Knob("nic.wol").Or("off"); wol != "off" && wol != "d" && speed <= 100e6 {
		b.Rule = "B27"
		b.also("waking by the network is on (nic.wol), which leaves some cards at a low speed").helps("nic.wol")
	}
	return b, true
}

// duplex is rules B02 and B03.
func duplex(f features) (*finding, bool) {
	a, ok1 := f.Sender.NIC()
	b, ok2 := f.Receiver.NIC()
	if !ok1 || !ok2 {
		return nil, false
	}
	mine, theirs := limits.Duplex(a), limits.Duplex(b)
	collisions := f.Sender.Counters.Moved("nic_collisions").Or(0) + f.Receiver.Counters.Moved("nic_collisions").Or(0)
	broken := f.brokenFrames(f.Sender) + f.brokenFrames(f.Receiver)
	switch {
	case (mine == "half") != (theirs == "half") && mine != "" && theirs != "" || collisions >= fewSigns && broken >= fewSigns:
		at := f.Sender.Host
		if theirs == "half" {
			at = f.Receiver.Host
		}
		m := f.found(at, "duplex mismatch").
			because("link modes of both cards", "one end of the link is at half duplex and the other is not").
			explains(f.explainedBy1()).helps("nic.media.autoneg", "nic.media.duplex").
			noKnob("set both ends to negotiate; an end that is fixed makes the other one choose half duplex")
		if collisions+broken > 0 {
			m.because("nic_collisions, nic_rx_crc_errors", "%d collisions and %d broken frames", collisions, broken)
		}
		m.Rule = "B02"
		return m, true
	case (mine == "half" || theirs == "half") && !f.Path.HalfDuplexRefuted():
		h := f.found("", "half duplex").because("link modes of both cards", "both directions share the wire").noKnob("a hub does no more: a switch does")
		h.Rule = "B03"
		return h.kind(model.FindingBeside), true
	}
	return nil, false
}

func (f features) brokenFrames(e End) int64 {
	return e.Counters.Moved("nic_rx_crc_errors").Or(0) + e.Counters.Moved("nic_rx_frame_errors").Or(0)
}

// wireErrors is rule B04.
func wireErrors(f features) (*finding, bool) {
	for _, e := range []End{f.Receiver, f.Sender} {
		broken := f.brokenFrames(e)
		got := e.Counters.Moved("nic_rx_packets").Or(0)
		if broken < fewSigns || got <= 0 || float64(broken) < brokenFrames*float64(got) {
			continue
		}
		return f.found(e.Host, "broken frames").
			because("nic_rx_crc_errors, nic_rx_frame_errors", "%d of %d frames arrived broken", broken, got).explains(f.explainedBy1()).
			noKnob("cable, connector, optics or interference: replace the cable first, then the port"), true
	}
	return nil, false
}

// pauses is rule B05.
func pauses(f features) (*finding, bool) {
	rate := f.Sender.Facts.LinkRate.Or(0)
	if rate <= 0 || f.Window <= 0 || f.full.Or(1) >= nearlyFull {
		return nil, false
	}
	var n int64
	for of, moved := range f.Sender.Counters.By(driverCounter) {
		if of = strings.ToLower(of); strings.Contains(of, "rx") && strings.Contains(of, "pause") || strings.Contains(of, "rx_flow_control_xoff") {
			n = max(n, moved)
		}
	}
	share := min(1, float64(n)*pauseQuanta/float64(rate)/f.Window.Seconds())
	if n < fewSigns || share < limitedShare {
		return nil, false
	}
	return f.found(f.Receiver.Host, "flow control").share(share, "pause frames received").
		because("pause frames that the driver counts", "%s stopped the sender's card for up to %.0f %% of the time", plain.Count(n, "pause frame"), 100*share).
		explains(f.explainedByTime(share)).misses(false, "who sent the pause frames: the receiver, or a switch", "the counters of the switch").
		noKnob("make the slow receiver or switch port faster first; nic.pause.rx off only trades the wait for loss").helps("nic.pause.rx"), true
}

// flapped is rule B25. Kernels before 4.16 do not count how often the link was lost, and few
// drivers count the packets lost with it.
func flapped(f features) (*finding, bool) {
	for _, e := range []End{f.Sender, f.Receiver} {
		lost, held := e.Counters.Moved(carrierDown).Or(0), e.Counters.Moved("nic_tx_carrier_errors").Or(0)
		if lost == 0 && held == 0 {
			continue
		}
		found := f.found(e.Host, "link that goes down")
		if lost > 0 {
			found = found.because(carrierDown, "the link was lost %s during the test", times(lost))
		}
		if held > 0 {
			found = found.because("nic_tx_carrier_errors", "%s could not be sent for lack of a link", plain.Count(held, "packet"))
		}
		return found.explains(f.explainedBy1()).helps("nic.eee", "nic.media.autoneg").noKnob("look at the cable and the port"), true
	}
	return nil, false
}

// allowance is rule B39: a cloud's card counted traffic that it cut.
func allowance(f features) (*finding, bool) {
	for _, e := range []End{f.Sender, f.Receiver} {
		for of, n := range e.Counters.By(driverCounter) {
			if n > 0 && strings.Contains(of, "allowance_exceeded") {
				return f.found(e.Host, "allowance of the cloud").because("nic_driver "+of, "the card cut traffic %s (%s)", times(n), of).
					allows(f.Goodput, "measured").noKnob("a larger instance, or pauses between bursts"), true
			}
		}
	}
	return nil, false
}

// bondMember is rule B40: one connection uses one member of a bond.
func bondMember(f features) (*finding, bool) {
	if f.Streams > 1 || f.full.Or(1) >= nearlyFull {
		return nil, false
	}
	for _, e := range []End{f.Sender, f.Receiver} {
		nic, ok := e.NIC()
		rate, known := e.Facts.LinkRate.Get()
		n := len(nic.Below)
		if !ok || !known || n < 2 || nic.Kind.Or("") != "bond" || nic.Bond.Or("") == "active-backup" {
			continue
		}
		if c, err := (limits.Wire{Rate: rate / units.BitRate(n), MTU: max(f.largest(), 576), Timestamps: true}).Goodput(); err == nil &&
			float64(f.Goodput) >= oneMember*float64(c) && float64(f.Goodput) <= nearBound*float64(c) {
			return f.found(e.Host, "one member of a bond").
				because("facts", "%s has %d members, and one connection uses one of them: %s", nic.Name, n, c).allows(max(c, f.Goodput), "rate of the bond over its members").
				helps("streams").noKnob("the bond spreads connections, not packets: several connections use several members"), true
		}
	}
	return nil, false
}
