package faults

import (
	"strconv"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

func itoa(n int) string { return strconv.Itoa(n) }

// coreRate is the minimum that one core of the judge's machine receives or sends, of TCP with
// packets of 1500 bytes: the program takes 0.2 to 0.5 cores per Gbit/s.
const coreRate = units.BitRate(8e9)

// programs returns programs and CPUs that are slower than the path.
func programs() []Kind {
	return []Kind{
		{Name: "quota-receiver", Says: "a quota of 1 to 3 % of a core for the receiving program", lone: true, plant: func(d *draw) bool { return d.quota(d.receiver()) }},
		{Name: "quota-sender", Says: "a quota of 1 to 3 % of a core for the sending program", lone: true, plant: func(d *draw) bool { return d.quota(d.sender()) }},
		{Name: "busy-core-receiver", Says: "the receiving program shares its core with one that gets nearly all of it", lone: true, plant: func(d *draw) bool { return d.busy(d.receiver()) }},
		{Name: "busy-core-sender", Says: "the sending program shares its core with one that gets nearly all of it", lone: true, plant: func(d *draw) bool { return d.busy(d.sender()) }},
		{Name: "slow-reader", Says: "the receiving program stops for 60 to 80 % of the time", lone: true, plant: func(d *draw) bool {
			return d.stops(d.receiver(), Answer{"B21", d.receiver()})
		}},
		{Name: "slow-writer", Says: "the sending program stops for 60 to 80 % of the time", lone: true, plant: func(d *draw) bool {
			return d.stops(d.sender(), Answer{"B21", d.sender()})
		}},
	}
}

// own lets the other direction also blame the same host: the plant acts there too, and how much
// depends on which end costs more.
func (d *draw) own(h model.Host, answers ...Answer) {
	back := d.says(opposite(d.way), append([]Answer{{"ceiling", Any}}, answers...)...)
	back.Planted = false
	d.may(Answer{"B16", h}, Answer{"B23", h}, Answer{"B30", ""})
}

func (d *draw) quota(h model.Host) bool {
	share := round(d.between(0.01, 0.03))
	d.plants = append(d.plants, Plant{Host: h, Quota: share})
	d.own(h, Answer{"B16", h})
	d.mtu = 1500
	d.says(d.way, Answer{"B16", h})
	// It bites if even a core that handles coreRate has no time for the link.
	return d.trip <= 20*time.Millisecond && float64(d.rate()) >= 2*share*float64(coreRate) && d.rate() <= packetRate(1500)
}

func (d *draw) busy(h model.Host) bool {
	d.plants = append(d.plants, Plant{Host: h, Busy: true})
	d.own(h, Answer{"B16", h})
	d.mtu = 1500
	d.says(d.way, Answer{"B16", h})
	return d.trip <= 20*time.Millisecond && d.rate() >= 200e6 && d.rate() <= packetRate(1500)
}

// stops makes a program pause most of the time: a stopped program uses no CPU, and its kernel
// goes on.
func (d *draw) stops(h model.Host, first Answer) bool {
	period := time.Duration(d.between(150, 300)) * time.Millisecond
	share := 0.6 + 0.2*d.rng.Float64()
	stopped := time.Duration(share * float64(period)).Round(time.Millisecond)
	d.plants = append(d.plants, Plant{Host: h, Stopped: stopped, Period: period})
	other := Answer{"B21", h}
	d.own(h, other)
	d.mtu = 1500
	d.says(d.way, first)
	// Meanwhile the buffers of both kernels, which grow to 6 MiB, must drain. A fast enough
	// link drains them, and a window of a few round trips is not larger.
	empty := float64(d.rate()) / 8 * stopped.Seconds()
	return d.trip <= 5*time.Millisecond && empty > 4*6<<20 || d.trip <= 5*time.Millisecond && d.small(h, empty)
}

// small keeps the buffers of the stopped host small enough to drain, and large enough for the
// path, so that they are no limit themselves.
func (d *draw) small(h model.Host, empty float64) bool {
	size := units.Bytes(empty / 4)
	if float64(size) < 8*d.held() || size < 256*1024 || size > 4<<20 {
		return false
	}
	id := "tcp.send_buffer_max"
	if h == d.receiver() {
		id = "tcp.recv_buffer_max"
	}
	d.knob(h, id, strconv.FormatInt(int64(size), 10))
	return true
}

// traps returns harmless kinds that look like limits.
func traps() []Kind {
	trap := func(name, says string, plant func(*draw) bool) Kind {
		return Kind{Name: name, Says: says, Harmless: true, plant: plant}
	}
	return []Kind{
		trap("asymmetric", "a rate of 3 to 15 times that of the way back", func(d *draw) bool {
			d.rates[place(opposite(d.way))] = units.BitRate(round(float64(d.rate()) / d.between(3, 15)))
			return min(d.rates[0], d.rates[1]) >= 1e6
		}),
		trap("jitter", "a delay that varies by up to a third of the round trip, order kept", func(d *draw) bool {
			d.key("%sjitter=%s", wire(d.way), (d.trip / 3).Round(time.Microsecond))
			d.queues[place(d.way)] = 2 * kindQueue(d.rate(), d.trip, d.mtu)
			return d.trip >= 3*time.Millisecond && d.trip <= 60*time.Millisecond
		}),
		trap("duplicates", "0.5 to 2 % of packets arrive twice", func(d *draw) bool {
			d.key("%sdup=%.4g%%", wire(d.way), round(d.between(0.5, 2)))
			d.may(Answer{"B11", Any})
			return true
		}),
		trap("loss-bbr", "0.02 to 0.2 % of packets lost, which bbr does not mind", func(d *draw) bool {
			d.key("%sloss=%.4g%%", wire(d.way), round(d.between(0.02, 0.2)))
			return d.trip <= 60*time.Millisecond
		}),
		trap("lost-acks", "1 to 3 % of packets of the way back lost, of which only acknowledgements are looked at", func(d *draw) bool {
			d.key("%sloss=%.4g%%", wire(opposite(d.way)), round(d.between(1, 3)))
			d.flags = append(d.flags, alone(d.way))
			return d.trip <= 60*time.Millisecond
		}),
		trap("ample-window", "a receive buffer with a limit that is three to five times what the path holds", func(d *draw) bool {
			size := d.held() / windowShare * d.between(3, 5)
			d.knob(d.receiver(), "tcp.recv_buffer_max", strconv.FormatInt(int64(size), 10))
			return size >= 512*1024 && size < 6<<20
		}),
		trap("timestamps-off", "TCP timestamps off at one host", func(d *draw) bool {
			d.knob(pick(d, model.Near, model.Far), "tcp.timestamps", "0")
			return true
		}),
		trap("sack-off", "selective acknowledgements off, and nothing lost", func(d *draw) bool {
			d.knob(pick(d, model.Near, model.Far), "tcp.sack", "0") // see mended
			return true
		}),
		trap("jumbo", "an MTU of 9000 at both hosts", func(d *draw) bool {
			d.mtu = 9000
			return d.rate() >= 20e6
		}),
		trap("reno", "reno on a short path", func(d *draw) bool {
			d.reno()
			return d.trip <= 20*time.Millisecond
		}),
	}
}
