package diagnose

import (
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// onRadio puts an end on a radio whose frames go at these rates in Mbit/s, one per second, in
// both directions, with these movements of its counters.
func onRadio(e *Evidence, end *End, dbm float64, mbit []float64, moved ...any) {
	nic(end, func(n *model.NIC) {
		n.Name, n.Kind = "wlan0", known("wireless")
		n.Radio = &model.Radio{Role: known("station"), FrequencyMHz: known(5180), WidthMHz: known(80), PowerSave: known(true)}
	})
	end.Facts.LinkRate = fact.Unknown[units.BitRate]("wlan0 is a radio")
	e.Ceiling = fact.Unknown[units.BitRate]("a radio")
	for i, v := range mbit {
		at := time.Duration(i) * time.Second
		for _, m := range []model.Metric{"radio_tx_rate", "radio_rx_rate"} {
			e.Samples = append(e.Samples, model.Sample{Host: end.Host, Metric: m, Of: "wlan0", Start: at, Length: time.Second, Value: v * 1e6})
		}
		e.Samples = append(e.Samples, model.Sample{Host: end.Host, Metric: "radio_signal", Of: "wlan0", Start: at, Length: time.Second, Value: dbm})
	}
	end.Counters.groups["radio"] = 7
	end.moved("radio_tx_frames", 10000, "radio_channel_ms", 10000)
	end.moved(moved...)
}

func radioCases() []aCase {
	good := []float64{120, 130, 130, 140}
	return []aCase{
		{name: "a radio that is full, weakly heard", rate: 72e6, change: func(e *Evidence) {
			onRadio(e, &e.Sender, -71, good, "radio_busy_ms", 9000)
		}, rule: "W01", at: atSender, allows: 72e6, says: "130 Mbit/s to the access point at -71 dBm, of which 72 Mbit/s are 55 %", without: "B06"},
		{name: "the receiver's radio", rate: 72e6, change: func(e *Evidence) { onRadio(e, &e.Receiver, -50, good) },
			rule: "W01", at: atReceiver, says: "130 Mbit/s from the access point at -50 dBm", misses: "wired link"},
		{name: "a radio in front of which packets wait", rate: 72e6, change: func(e *Evidence) {
			onRadio(e, &e.Receiver, -50, good)
			e.Place = model.Place{Kind: model.PlaceLink, Direction: e.Direction, Before: model.PlaceNode{Hop: 1}, Behind: model.PlaceNode{Hop: 2, Host: e.Receiver.Host}, Later: time.Second}
		}, rule: "W01", at: atReceiver},
		{name: "a radio, and a full link elsewhere", rate: 72e6, change: func(e *Evidence) {
			onRadio(e, &e.Sender, -50, good)
			e.Place = model.Place{Kind: model.PlaceLink, Direction: e.Direction, Before: model.PlaceNode{Hop: 1}, Behind: model.PlaceNode{Hop: 2}, Later: time.Second}
		}, rule: "unknown", without: "W01"},
		{name: "a radio beside a wired link whose rate is known", rate: 72e6, change: func(e *Evidence) {
			onRadio(e, &e.Sender, -60, good)
			e.Ceiling = known(units.BitRate(941e6))
		}, rule: "W01", at: atSender},
		{name: "a third of the rate, as others use the channel", rate: 43e6, change: func(e *Evidence) {
			onRadio(e, &e.Sender, -60, good, "radio_busy_ms", 9500, "radio_sending_ms", 4500)
		}, rule: "W01", at: atSender, says: "others used it for 50 %"},
		{name: "a third of the rate, as frames are repeated", rate: 43e6, change: func(e *Evidence) {
			onRadio(e, &e.Sender, -60, good, "radio_tx_retries", 4000)
		}, rule: "W01", at: atSender, says: "29 % of its attempts to send are repetitions"},
		{name: "a third of the rate, as both directions take turns", rate: 43e6, change: func(e *Evidence) {
			onRadio(e, &e.Sender, -60, good)
			e.Other, e.Beside.Together, e.Beside.TogetherBack = known(units.BitRate(43e6)), known(units.BitRate(20e6)), known(units.BitRate(20e6))
		}, rule: "W01", at: atSender, says: "take turns", without: "B18"},
		{name: "a third of the rate, and nothing that tells why", rate: 43e6, change: func(e *Evidence) { onRadio(e, &e.Sender, -60, good) }, rule: "unknown", without: "W01"},
		{name: "a tenth of the rate on a channel that is never free", rate: 13e6, change: func(e *Evidence) {
			onRadio(e, &e.Sender, -60, good, "radio_busy_ms", 9900)
		}, rule: "W01", at: atSender},
		{name: "little of the rate, but what the rate control expects", rate: 43e6, change: func(e *Evidence) {
			onRadio(e, &e.Sender, -60, good)
			for i := range 3 {
				e.Samples = append(e.Samples, model.Sample{Host: e.Sender.Host, Metric: "radio_expected", Start: time.Duration(i), Length: 1, Value: 50e6})
			}
		}, rule: "W01", at: atSender},
		{name: "two stations on one channel", rate: 40e6, change: func(e *Evidence) {
			onRadio(e, &e.Sender, -60, good)
			onRadio(e, &e.Receiver, -60, good)
		}, rule: "W01", at: atSender, says: "each frame is sent twice"},
		{name: "more than the radio's rate, which is then another one", rate: 300e6, change: func(e *Evidence) { onRadio(e, &e.Sender, -60, good) }, rule: "unknown", without: "W01"},
		{name: "rates of two samples only", rate: 72e6, change: func(e *Evidence) { onRadio(e, &e.Sender, -60, good[:2]) }, rule: "unknown", without: "W01"},
		{name: "a window on a radio", rate: 52e6, change: func(e *Evidence) {
			onRadio(e, &e.Sender, -60, []float64{100, 100, 100})
			window(65536, 0.6)(e)
		}, rule: "B07", at: atReceiver, without: "W01"},
		{name: "power save, and a round trip that it explains", rate: 72e6, change: func(e *Evidence) {
			onRadio(e, &e.Sender, -60, good)
			e.Beside.Idle = known(80 * time.Millisecond)
		}, rule: "W02", at: atSender, beside: true, says: "without load the round trip is 80 ms, and 10 ms at best"},
		{name: "power save that costs nothing", rate: 72e6, change: func(e *Evidence) {
			onRadio(e, &e.Sender, -60, good)
			e.Beside.Idle = known(12 * time.Millisecond)
		}, rule: "W01", at: atSender, without: "W02"},
	}
}

// TestRadioAdvice: the advice for a radio depends on what slows it down.
func TestRadioAdvice(t *testing.T) {
	at := func(mhz, wide int) model.Radio { return model.Radio{FrequencyMHz: known(mhz), WidthMHz: known(wide)} }
	for want, c := range map[string]struct {
		air
		model.Radio
	}{
		"nearer":        {air{signal: known(-71.0), others: known(0.5)}, at(2412, 20)},
		"others use":    {air{signal: known(-60.0), others: known(0.5)}, at(5180, 80)},
		"collide":       {air{signal: known(-60.0), again: known(0.2)}, at(5180, 80)},
		"2.4 GHz":       {air{signal: known(-60.0)}, at(2412, 40)},
		"20 MHz wide":   {air{}, at(5180, 20)},
		"more antennas": {air{}, model.Radio{}},
	} {
		must.Contain(t, c.advice(c.Radio), want)
	}
}
