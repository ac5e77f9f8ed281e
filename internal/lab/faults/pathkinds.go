package faults

import (
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// outside returns the answer for a limit between the hosts.
func outside() []Answer { return []Answer{{"B06", ""}} }

// framed returns the payload rate of a stage, which counts frames without the gaps between
// them.
func framed(rate units.BitRate, mtu int) units.BitRate {
	return rate * units.BitRate(float64(mtu-52)/float64(mtu+14))
}

// slow draws a rate that bites.
func (d *draw) slow() units.BitRate {
	return units.BitRate(round(d.between(0.05, 0.55) * float64(d.rate())))
}

// paths returns the limits between the hosts.
func paths() []Kind {
	return []Kind{
		{Name: "slow-stage", Says: "a slower link on the way, of which the hosts know nothing", plant: func(d *draw) bool {
			r := d.slow()
			d.key("%sstage=%.0fbit", wire(d.way), float64(r))
			d.queues[place(d.way)] = kindQueue(r, d.trip, d.mtu)
			return d.allows(framed(r, d.mtu), outside()...)
		}},
		{Name: "slow-stage-bloated", Says: "a slower link with a queue of 0.2 to 0.5 s, reno", plant: func(d *draw) bool {
			r := d.slow()
			d.reno()
			d.key("%sstage=%.0fbit", wire(d.way), float64(r))
			d.queues[place(d.way)] = units.Bytes(float64(r) / 8 * d.between(0.2, 0.5))
			d.may(Answer{"B30", ""})
			return d.trip <= 100*time.Millisecond && d.allows(framed(r, d.mtu), outside()...)
		}},
		{Name: "policer-bbr", Says: "a policer, bbr", plant: func(d *draw) bool { return d.policed() }},
		{Name: "policer-reno", Says: "a policer, reno", plant: func(d *draw) bool { d.reno(); return d.policed() }},
		{Name: "own-shaper", Says: "a token bucket filter at the sender's own interface", plant: func(d *draw) bool {
			r := d.slow()
			d.knobless(d.sender(), r)
			return d.allows(framed(r, d.mtu), Answer{"B06", d.sender()})
		}},
		{Name: "shared-bus", Says: "a bus slower than the link, shared by both directions", lone: true, plant: func(d *draw) bool {
			r := d.slow()
			d.full = true
			d.key("bus=%.0fbit", float64(r))
			return d.bothWays(func() bool {
				d.queues[place(d.way)] = kindQueue(r, d.trip, d.mtu)
				return d.allows(framed(r, d.mtu), Answer{"B18", ""}, Answer{"B06", ""})
			})
		}},
		{Name: "half-duplex", Says: "both directions take turns on the medium", lone: true, plant: func(d *draw) bool {
			d.full, d.mtu = true, 1500
			d.rates = [2]units.BitRate{d.rates[1], d.rates[1]}
			d.key("duplex=half")
			d.may(Answer{"B30", ""}) // a queue that is served half of the time takes twice as long
			for _, way := range []model.Direction{model.To, model.From} {
				d.says(way, Answer{"ceiling", Any}, Answer{"B03", ""}, Answer{"B18", ""})
				d.named(way, Answer{"B03", ""}, Answer{"B18", ""})
			}
			return d.rates[0] <= packetRate(1500) && d.trip <= 50*time.Millisecond
		}},
		{Name: "short-queue", Says: "a queue of 3 to 10 % of a round trip before the link, reno", plant: func(d *draw) bool {
			d.mtu = 1500
			d.reno()
			q := d.held() * d.between(0.03, 0.10)
			d.queues[place(d.way)] = max(units.Bytes(q), 3*1514)
			d.says(d.way, outside()...)
			return q >= 3*1514 && d.trip >= 10*time.Millisecond && kept(d.held(), q) < 0.85
		}},
		{Name: "bloated-queue", Says: "a queue of 0.25 to 0.6 s before the link, reno", plant: func(d *draw) bool {
			wait := d.between(0.25, 0.6)
			d.mtu = 1500
			d.reno()
			d.queues[place(d.way)] = units.Bytes(float64(d.rate()) / 8 * wait)
			d.named(d.way, Answer{"B30", ""})
			d.says(d.way, Answer{"ceiling", Any}, Answer{"B30", ""})
			// The buffers must fill it during the test, and one packet must not be a large part
			// of it.
			return d.trip <= 50*time.Millisecond && float64(d.queues[place(d.way)])+d.held() < mostHeld && d.rate() >= 3e6
		}},
		{Name: "black-hole", Says: "packets above 600 to 1400 bytes vanish in one direction", lone: true, plant: func(d *draw) bool {
			d.mtu = 1500
			d.key("%spathmtu=%d", wire(d.way), 600+d.rng.IntN(801))
			d.says(d.way, Answer{"M2", ""})
			return d.trip <= 150*time.Millisecond
		}},
		{Name: "black-hole-jumbo", Says: "packets above 1500 bytes vanish between hosts with an MTU of 9000", lone: true, plant: func(d *draw) bool {
			d.mtu = 9000
			d.key("%spathmtu=1500", wire(d.way))
			d.says(d.way, Answer{"M2", ""})
			return d.trip <= 150*time.Millisecond && d.rate() <= packetRate(9000)
		}},
		{Name: "black-hole-both", Says: "packets above 600 to 1400 bytes vanish in both directions", lone: true, plant: func(d *draw) bool {
			d.mtu = 1500
			d.key("pathmtu=%d", 600+d.rng.IntN(801))
			d.says(model.To, Answer{"M2", ""})
			d.says(model.From, Answer{"M2", ""})
			return d.trip <= 100*time.Millisecond
		}},
	}
}

// ackBytes is the link capacity of an acknowledgement with timestamps: 52 bytes of headers and
// 38 of framing (diagnosis-2.md section 1).
const ackBytes = 90

// later returns kinds of the return path and its variation.
func later() []Kind {
	return []Kind{
		{Name: "narrow-back", Says: "a way back 60 to 200 times slower, which acknowledgements fill", lone: true, later: true, plant: func(d *draw) bool {
			d.mtu, d.full = 1500, true
			back := units.BitRate(round(float64(d.rate()) / d.between(60, 200)))
			d.rates[place(opposite(d.way))] = back
			return back >= LeastRate && d.trip <= 50*time.Millisecond && d.allows(back/ackBytes*2*1448, Answer{"R01", ""})
		}},
		{Name: "data-back", Says: "a way back 8 to 20 times slower, on whose data acknowledgements wait while both directions are busy", lone: true, later: true, plant: func(d *draw) bool {
			d.mtu, d.full = 1500, true
			back := units.BitRate(round(float64(d.rate()) / d.between(8, 20)))
			d.rates[place(opposite(d.way))] = back
			d.queues[place(opposite(d.way))] = units.Bytes(float64(back) / 8 * d.trip.Seconds() * d.between(4, 8))
			d.may(Answer{"B30", ""})
			d.says(d.way, Answer{"ceiling", Any})
			d.named(d.way, Answer{"R01", ""})
			return back >= LeastRate && d.rate() <= 100e6 && d.trip >= 10*time.Millisecond && d.trip <= 60*time.Millisecond
		}},
		{Name: "left-early", Says: "a delay that varies on the way back, so that cubic leaves slow start early", lone: true, later: true, plant: func(d *draw) bool {
			d.mtu, d.cubic, d.omit, d.time = 1500, true, 2*time.Second, 8*time.Second
			d.key("%sjitter=%s", wire(opposite(d.way)), (d.trip * 3 / 10).Round(time.Millisecond))
			// It left slow start at 49 to 89 segments in most runs: less than half of what the
			// path holds. In others it does not leave early, and the path is full when the
			// warm-up is over.
			d.says(d.way, Answer{"B14b", ""}, Answer{"ceiling", Any})
			return d.trip >= 150*time.Millisecond && d.held() >= 200*1448 && d.held() <= 600*1448
		}},
	}
}

// policed plants a policer.
func (d *draw) policed() bool {
	r := d.slow()
	d.full = true
	d.key("%spolice=%.0fbit", wire(d.way), float64(r))
	return d.trip <= 60*time.Millisecond && d.allows(framed(r, d.mtu), outside()...)
}

// knobless plants a shaper, which is not a setting of the catalogue.
func (d *draw) knobless(h model.Host, rate units.BitRate) {
	d.key("%s.shape=%.0fbit", h, float64(rate))
}

// sizes returns packets that are too small, and tests that are too short.
func sizes() []Kind {
	return []Kind{
		{Name: "small-mtu", Says: "an MTU of 576 to 700 at both hosts", lone: true, plant: func(d *draw) bool {
			d.mtu = 576 + d.rng.IntN(125)
			for _, way := range []model.Direction{model.To, model.From} {
				d.says(way, Answer{"ceiling", Any}, Answer{"B29", Any})
				d.named(way, Answer{"B29", Any})
			}
			return max(d.rates[0], d.rates[1]) <= packetRate(d.mtu)
		}},
		{Name: "mtu-mismatch", Says: "an MTU of 9000 at one host and 1500 at the other", lone: true, plant: func(d *draw) bool {
			at := pick(d, model.Near, model.Far)
			d.mtu = 9000
			d.knob(at, "link.mtu", "1500")
			for _, way := range []model.Direction{model.To, model.From} {
				d.says(way, Answer{"ceiling", Any}, Answer{"M1", at})
				d.named(way, Answer{"M1", at})
			}
			return max(d.rates[0], d.rates[1]) <= packetRate(1500)
		}},
		{Name: "tunnel-mtu", Says: "a path of 1280 to 1450 bytes that both hosts' routes know", lone: true, plant: func(d *draw) bool {
			size := 1280 + d.rng.IntN(171)
			d.mtu = 1500
			d.key("pathmtu=%d", size)
			d.plants = []Plant{{Host: model.Near, RouteMTU: size}, {Host: model.Far, RouteMTU: size}}
			for _, way := range []model.Direction{model.To, model.From} {
				d.says(way, Answer{"ceiling", Any}, Answer{"M8", Any})
				d.named(way, Answer{"M8", Any})
			}
			return max(d.rates[0], d.rates[1]) <= packetRate(1280)
		}},
		{Name: "small-segments", Says: "the program asks for segments of 200 to 500 bytes (-M)", lone: true, plant: func(d *draw) bool {
			mss := 200 + d.rng.IntN(301)
			d.mtu = 1500
			d.flags = append(d.flags, "-M", itoa(mss))
			for _, way := range []model.Direction{model.To, model.From} {
				d.says(way, Answer{"ceiling", Any}, Answer{"B29", Any})
				d.named(way, Answer{"B29", Any})
			}
			return max(d.rates[0], d.rates[1]) <= packetRate(mss+40)
		}},
		{Name: "short-test", Says: "a test that ends while the connection still begins", lone: true, plant: func(d *draw) bool {
			return d.beginning(0.5, 0.8)
		}},
		{Name: "cold-start", Says: "a test whose larger part is the beginning of a connection", lone: true, plant: func(d *draw) bool {
			return d.beginning(0.9, 1.2)
		}},
	}
}

// beginning plants a test that lasts a share of slow start, and includes it.
func (d *draw) beginning(low, high float64) bool {
	d.mtu = 1500
	d.time = time.Duration(d.between(low, high) * float64(d.startTime()) / 1.5).Round(10 * time.Millisecond)
	d.omit = 0
	d.flags = append(d.flags, "-i", (d.time / 5).Round(time.Millisecond).String())
	d.says(model.To, Answer{"B14", ""})
	d.says(model.From, Answer{"B14", ""})
	return d.trip >= 40*time.Millisecond && d.time >= 300*time.Millisecond && d.time <= 5*time.Second && d.held() > 40*1448
}
