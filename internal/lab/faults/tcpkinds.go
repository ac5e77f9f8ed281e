package faults

import (
	"fmt"
	"math"
	"time"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// windowShare is the part of tcp.recv_buffer_max that is announced as the window: 38 KiB of 64
// KiB, and 18.6 of 32, were observed (Linux 6.18, tcp_adv_win_scale by measured truesize).
const windowShare = 0.6

// buffer draws a power of two of bytes.
func (d *draw) buffer(low, high int) units.Bytes {
	return units.Bytes(1 << (low + d.rng.IntN(high-low+1)))
}

func (d *draw) windowAllows(window float64, first ...Answer) bool {
	return d.trip >= time.Millisecond && d.allows(limits.WindowBound(units.Bytes(window), d.trip), first...)
}

// congestion is the setting that the kinds below need: the judge's machines default to bbr,
// which tolerates losses, reordering and short queues.
const congestion = "tcp.congestion_control"

// reno makes the sender of the planted direction use Reno. A virtual host may be unable to make
// cubic its default if the machine restricts it (tcp_allowed_congestion_control).
func (d *draw) reno() { d.knob(d.sender(), congestion, "reno") }

// windows returns limits by buffers and windows of the two hosts.
func windows() []Kind {
	return []Kind{
		{Name: "receive-window", Says: "a small tcp.recv_buffer_max at the receiver", plant: func(d *draw) bool {
			b := d.buffer(15, 22)
			d.knob(d.receiver(), "tcp.recv_buffer_max", fmt.Sprint(int64(b)))
			return d.windowAllows(windowShare*float64(b), Answer{"B07", d.receiver()})
		}},
		{Name: "receive-windows", Says: "a small tcp.recv_buffer_max at both hosts", lone: true, plant: func(d *draw) bool {
			b := d.buffer(15, 22)
			return d.bothWays(func() bool {
				d.knob(d.receiver(), "tcp.recv_buffer_max", fmt.Sprint(int64(b)))
				return d.windowAllows(windowShare*float64(b), Answer{"B07", d.receiver()})
			})
		}},
		{Name: "receive-autotune-off", Says: "autotuning off at the receiver, whose buffer stays at its first size", plant: func(d *draw) bool {
			d.knob(d.receiver(), "tcp.recv_autotune", "0")
			return d.windowAllows(float64(limits.MaxUnscaledWindow), Answer{"B07", d.receiver()})
		}},
		{Name: "receive-initial", Says: "autotuning off and a first receive buffer of 16 to 64 KiB", plant: func(d *draw) bool {
			b := d.buffer(14, 16)
			d.knob(d.receiver(), "tcp.recv_autotune", "0")
			d.knob(d.receiver(), "tcp.recv_buffer_initial", fmt.Sprint(int64(b)))
			return d.windowAllows(windowShare*float64(b), Answer{"B07", d.receiver()})
		}},
		{Name: "send-buffer", Says: "a small tcp.send_buffer_max at the sender", plant: func(d *draw) bool {
			b := d.buffer(15, 21)
			d.knob(d.sender(), "tcp.send_buffer_max", fmt.Sprint(int64(b)))
			return d.windowAllows(float64(b), Answer{"B08", d.sender()})
		}},
		{Name: "send-buffers", Says: "a small tcp.send_buffer_max at both hosts", lone: true, plant: func(d *draw) bool {
			b := d.buffer(15, 21)
			return d.bothWays(func() bool {
				d.knob(d.sender(), "tcp.send_buffer_max", fmt.Sprint(int64(b)))
				return d.windowAllows(float64(b), Answer{"B08", d.sender()})
			})
		}},
		{Name: "scaling-off-receiver", Says: "window scaling off at the receiver", lone: true, plant: func(d *draw) bool { return d.unscaled(d.receiver(), d.receiver()) }},
		{Name: "scaling-off-sender", Says: "window scaling off at the sender", lone: true, plant: func(d *draw) bool { return d.unscaled(d.sender(), d.sender()) }},
		{Name: "scaling-off-both", Says: "window scaling off at both hosts", lone: true, plant: func(d *draw) bool {
			d.knob(model.Near, "tcp.window_scaling", "0")
			return d.unscaled(model.Far, Any)
		}},
		{Name: "program-buffer", Says: "the program itself sets its socket buffers (-w)", lone: true, plant: func(d *draw) bool {
			b := d.buffer(14, 20)
			d.flags = append(d.flags, "-w", fmt.Sprint(int64(b)))
			return d.bothWays(func() bool {
				return d.windowAllows(float64(b), Answer{"B07", d.receiver()}, Answer{"B08", d.sender()})
			})
		}},
	}
}

// bothWays plants the same in both directions, on equal links.
func (d *draw) bothWays(plant func() bool) bool {
	most := max(d.rates[0], d.rates[1])
	d.rates = [2]units.BitRate{most, most}
	ok := plant()
	d.way = opposite(d.way)
	ok = plant() && ok
	d.way = opposite(d.way)
	return ok
}

// unscaled turns window scaling off at one host, which disables it in both directions (RFC 7323
// section 2.2).
func (d *draw) unscaled(at, named model.Host) bool {
	d.knob(at, "tcp.window_scaling", "0")
	return d.bothWays(func() bool { return d.windowAllows(float64(limits.MaxUnscaledWindow), Answer{"B09", named}) })
}

// lossy plants losses in one direction, under Reno or CUBIC, whose formulas it follows: some
// must occur during a test.
func (d *draw) lossy(low, high float64) bool {
	d.mtu = 1500
	p := round(d.between(low, high))
	d.key("%sloss=%.4g%%", wire(d.way), 100*p)
	bound := limits.Mathis(1448, d.trip, p, false)
	if d.cubic = d.rng.IntN(2) == 0; d.cubic {
		bound = limits.LossBound(1448, d.trip, p)
	} else {
		d.reno()
	}
	events := float64(bound) / 8 / 1448 * 5 * p
	return events >= 5 && d.trip >= 500*time.Microsecond && d.allows(bound, Answer{"B10", d.sender()})
}

// losses returns lost and reordered packets, and their effect on TCP.
func losses() []Kind {
	loss := func(name, says string, low, high float64) Kind {
		return Kind{Name: name, Says: says + " of packets lost, cubic or reno", plant: func(d *draw) bool { return d.lossy(low, high) }}
	}
	return []Kind{
		loss("loss-low", "0.01 to 0.1 %", 0.0001, 0.001),
		loss("loss-middle", "0.1 to 1 %", 0.001, 0.01),
		loss("loss-high", "1 to 4 %", 0.01, 0.04),
		{Name: "loss-both-ways", Says: "0.05 to 1 % of packets lost each way, reno", lone: true, plant: func(d *draw) bool {
			return d.bothWays(func() bool {
				ok := d.lossy(0.0005, 0.01)
				return ok && !d.cubic
			})
		}},
		{Name: "sack-off-loss", Says: "selective acknowledgements off, and 0.05 to 1 % of packets lost, cubic or reno", plant: func(d *draw) bool {
			d.knob(pick(d, model.Near, model.Far), "tcp.sack", "0")
			d.may(Answer{"B10", Any}) // losses at the beginning of a connection are repaired slowly, either way
			return d.lossy(0.0005, 0.01)
		}},
		{Name: "reno-long-path", Says: "reno on a path of 40 ms or more with 0.01 to 0.3 % of packets lost", plant: func(d *draw) bool {
			d.mtu = 1500
			d.reno()
			p := round(d.between(0.0001, 0.003))
			d.key("%sloss=%.4g%%", wire(d.way), 100*p)
			bound := limits.Mathis(1448, d.trip, p, false)
			return d.trip >= 40*time.Millisecond && float64(bound)/8/1448*5*p >= 3 && d.allows(bound, Answer{"B10", d.sender()})
		}},
		{Name: "reordering-sack-off", Says: "0.5 to 3 % of packets overtaken by three others, selective acknowledgements off, reno", plant: func(d *draw) bool {
			d.mtu = 1500
			d.reno()
			d.knob(pick(d, model.Near, model.Far), "tcp.sack", "0")
			p := round(d.between(0.005, 0.03))
			d.key("%sreorder=%.4g%%", wire(d.way), 100*p)
			d.may(Answer{"B10", Any})
			// Segments lost at the end of slow start are repaired in a round trip each, which
			// may take the whole test: then it is right to name the missing SACK. A sender
			// without SACK takes each reordering for a loss, as in RFC 5681. No formula says
			// how much of that it undoes by timestamps (RFC 4015): 18 Mbit/s were observed
			// where this one allows 0.3, so that the bound compares with no other.
			ok := d.trip >= time.Millisecond && d.allows(limits.Mathis(1448, d.trip, p, false), Answer{"B11", d.sender()}, Answer{"B10", d.sender()})
			d.labels[place(d.way)].Bound = 0
			return ok
		}},
	}
}

// kept returns the share of the rate that Reno keeps with a queue of q bytes before a path that
// holds held bytes: its window grows by a segment per round trip from half of what path and
// queue hold to all of it (RFC 5681), and growth beyond the path itself gains nothing.
func kept(held, q float64) float64 {
	most := 1 + q/held
	low := most / 2
	if low >= 1 {
		return 1
	}
	below := 1 - low // the part of the window's growth in which the path is not full
	return math.Min(1, (below*(1+low)/2+(most-1))/(most-low))
}
