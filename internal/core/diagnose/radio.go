package diagnose

import (
	"fmt"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// air is the radio of an end under load.
type air struct {
	End
	rate    units.BitRate // median rate of its frames in the air, in f's direction
	allows  units.BitRate // rate, or half of it if the other end's radio takes the rest of the time
	expects fact.Of[units.BitRate]
	signal  fact.Of[float64] // dBm
	sender  bool
	again   fact.Of[float64] // retransmitted frames over all; of the sender's radio
	failed  fact.Of[float64] // frames given up over all
	busy    fact.Of[float64] // share of the time in which the channel was busy
	others  fact.Of[float64] // and in which other stations used it
}

// level returns the median of a radio's samples of name under load.
func (f features) level(e End, name model.Metric) fact.Of[float64] {
	all := lists.Each(f.Sampled(e.Host, name), func(s model.Sample) float64 { return s.Value })
	return fact.If(len(all) >= fewSamples, stats.Median(all), string(name), "too few samples under load")
}

// over returns one counter over the sum of others, unknown if those did not move.
func (c Counters) over(part string, whole ...string) fact.Of[float64] {
	n, all := c.Moved(part).Or(0), c.Sum(whole...).Or(0)
	return fact.If(all > 0, float64(n)/float64(all), part+" over "+strings.Join(whole, ", "), "the driver does not count it")
}

// air returns the radio of e, false if it has none or reported no rate under load.
func (f features) air(e End) (air, bool) {
	nic, _ := e.NIC()
	a := air{End: e, sender: e.Host == f.Sender.Host, signal: f.level(e, "radio_signal")}
	name := model.Metric("radio_rx_rate")
	if a.sender {
		name = "radio_tx_rate"
		a.again, a.failed = e.Counters.over("radio_tx_retries", "radio_tx_frames", "radio_tx_retries"), e.Counters.over("radio_tx_failed", "radio_tx_frames")
		if v, ok := f.level(e, "radio_expected").Get(); ok {
			a.expects = fact.Known(units.BitRate(v), "radio_expected")
		}
	}
	rate, known := f.level(e, name).Get()
	a.rate = units.BitRate(rate)
	a.allows = a.rate
	a.busy = e.Counters.over("radio_busy_ms", "radio_channel_ms")
	own := e.Counters.Sum("radio_sending_ms", "radio_own_network_ms").Or(0)
	if channel := e.Counters.Moved("radio_channel_ms").Or(0); channel > 0 && own > 0 && (a.sender || e.Counters.Moved("radio_own_network_ms").Or(0) > 0) {
		a.others = fact.Known(max(0, a.busy.Or(0)-float64(own)/float64(channel)), "radio_busy_ms less those of its own network")
	}
	return a, nic.Radio != nil && known && rate > 0
}

// slowestAir returns the radio that limits f's direction. Two stations on one channel reach
// each other through the access point, so that each frame is in the air twice.
func (f features) slowestAir() (air, bool) {
	near, ok1 := f.air(f.Sender)
	far, ok2 := f.air(f.Receiver)
	if ok1 && ok2 {
		n, _ := near.NIC()
		m, _ := far.NIC()
		frequency, known := n.Radio.FrequencyMHz.Get()
		if n.Radio.Role.Or("") == "station" && m.Radio.Role.Or("") == "station" && known && frequency == m.Radio.FrequencyMHz.Or(0) {
			both := 1 / (1/near.rate + 1/far.rate)
			near.allows, far.allows = both, both
		}
	}
	if ok1 && (!ok2 || near.rate <= far.rate) {
		return near, true
	}
	return far, ok2
}

// radio is rule W01 (diagnosis-2.md 5): the goodput is what a radio's rate in the air allows,
// or less because frames are repeated or other stations use the channel.
func radio(f features) (*finding, bool) {
	a, ok := f.slowestAir()
	if !ok || f.idle.Or(0) >= idleShare || f.rwnd.Or(0) >= limitedShare || f.sndbuf.Or(0) >= limitedShare || f.full.Or(0) >= nearlyFull {
		return nil, false
	}
	placed := f.Place.Kind == model.PlaceLink
	own := a.sender && f.Place.Before.Hop == 0 || !a.sender && f.Place.Behind.Host == a.Host
	if placed && !own { // packets wait in front of another link
		return nil, false
	}
	share := float64(f.Goodput / a.allows)
	o, measured := f.atOnce()
	turns := measured && o.Time() > 0 && o.Time() <= ofTurns
	disturbed := a.again.Or(0) >= airAgain || a.others.Or(0) >= airOthers
	switch {
	case share >= 1: // so it does not limit the path
		return nil, false
	case share >= airFull, a.expects.IsKnown() && f.Goodput >= refutes*a.expects.Or(0):
	case share >= airFull/2 && (disturbed || turns):
	case a.failed.Or(0) > airFailed || a.busy.Or(0) >= airBusiest:
	default:
		return nil, false
	}
	where := "from"
	if a.sender {
		where = "to"
	}
	peer := "the access point"
	nic, _ := a.NIC()
	if nic.Radio.Role.Or("") == "access point" {
		peer = "the station"
	}
	text := fmt.Sprintf("%s %s %s", a.rate, where, peer)
	if dbm, ok := a.signal.Get(); ok {
		text += fmt.Sprintf(" at %.0f dBm", dbm)
	}
	b := f.found(a.Host, "radio").because("nl80211 or wlanapi, under load", "%s, of which %s are %.0f %%", text, f.Goodput, 100*share)
	if share >= airFull {
		b.also("a radio carries half to four fifths of its rate")
	}
	if a.allows < a.rate {
		b.also("both ends are stations on one channel, so that each frame is sent twice")
	}
	if v := a.again.Or(0); v >= airAgain {
		b.also("%.0f %% of its attempts to send are repetitions", 100*v)
	}
	if v := a.failed.Or(0); v > airFailed {
		b.also("it gave up on %.1f %% of its frames", 100*v)
	}
	if v, ok := a.busy.Get(); ok && (v >= airBusy || a.others.Or(0) >= airOthers) {
		b.also("the channel was busy for %.0f %% of the time", 100*v)
		if v := a.others.Or(0); v >= airOthers {
			b.also("others used it for %.0f %%", 100*v)
		}
	}
	if turns {
		b.also("both directions at once take turns")
	}
	b.misses(turns || disturbed || placed || a.busy.Or(0) >= airBusy, "whether a wired link of about this rate limits as well", ByCheck)
	return b.allows(f.Goodput, "measured").noKnob(a.advice(*nic.Radio)), true
}

// advice says how to make a radio faster, by what slows it down.
func (a air) advice(r model.Radio) string {
	dbm, heard := a.signal.Get()
	frequency := r.FrequencyMHz.Or(0)
	switch {
	case heard && dbm < weakSignal:
		return "the signal is weak: move nearer to the access point, or use a cable"
	case a.others.Or(0) >= airOthers:
		return "others use the channel: choose another channel at the access point, a narrower one, or 5 or 6 GHz"
	case a.again.Or(0) >= airAgain:
		return "frames collide at a good signal: choose another channel at the access point"
	case frequency > 0 && frequency < 3000:
		return "2.4 GHz is narrow and crowded: use 5 or 6 GHz, or a cable"
	case r.WidthMHz.Or(80) < 80:
		return fmt.Sprintf("the channel is %d MHz wide: let the access point use 80 MHz or more, or use a cable", r.WidthMHz.Or(0))
	}
	return "a cable, or an access point and a radio with more antennas"
}

// powerSave is rule W02: a radio that sleeps between packets learns of them at the next beacon,
// usually every 102.4 ms (IEEE 802.11-2020 section 11.2.3.1; 100 units of 1024 us).
func powerSave(f features) (*finding, bool) {
	idle, known := f.Beside.Idle.Get()
	if !known || f.nearRTT <= 0 || idle-f.nearRTT < nap || float64(idle) < napTrips*float64(f.nearRTT) {
		return nil, false
	}
	for _, e := range []End{f.Sender, f.Receiver} {
		if nic, _ := e.NIC(); nic.Radio != nil && nic.Radio.PowerSave.Or(false) {
			return f.found(e.Host, "power save of the radio").kind(model.FindingBeside).
				because("idle round trip, power save of "+nic.Name, "without load the round trip is %s, and %s at best: the radio sleeps between packets", units.FormatDuration(idle), units.FormatDuration(f.nearRTT)).
				noKnob("turn power save off while latency matters: iw dev " + nic.Name + " set power_save off"), true
		}
	}
	return nil, false
}
