package diagnose

import (
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// stillStands makes packets wait while the rate does not change.
func stillStands(e *Evidence) {
	e.Ceiling, e.RTT = known(units.BitRate(15.91e6)), known(29253*time.Microsecond)
	e.TCP.Congestion, e.TCP.RTT, e.TCP.RTTMin = known("bbr"), known(45780*time.Microsecond), known(29253*time.Microsecond)
	rates(e, 1, 1, 0.99, 1, 1.01)
}

// oldPCI puts a card on the bus of most PCs of 2002: 32 bit at 33 MHz.
func oldPCI(n *model.NIC) {
	n.Bus = model.Bus{Kind: known("pci"), Width: known(32), Clock: known(33.0), Allows: known(units.BitRate(32 * 33.33e6))}
}

// backFull is a fast direction whose acknowledgements fill a way back of 1 Mbit/s, as recorded.
func backFull(e *Evidence) {
	e.Ceiling, e.Back, e.Other = known(units.BitRate(470.7e6)), known(units.BitRate(941.5e3)), known(units.BitRate(933.5e3))
	e.RTT, e.TCP.RTTMin, e.TCP.RTT, e.TCP.Congestion = known(20800*time.Microsecond), known(20800*time.Microsecond), known(61*time.Millisecond), known("bbr")
	e.TCP.SegmentsIn = known(int64(17760))
}

// beside adds a run with both directions at once, and a run of the other direction alone.
func beside(other, together, back units.BitRate) func(*Evidence) {
	return func(e *Evidence) {
		e.Other, e.Beside.Together, e.Beside.TogetherBack = known(other), known(together), known(back)
	}
}

// bidir makes the run one of both directions at once, over a link of two rates.
func bidir(ceiling, ceilingBack, back units.BitRate) func(*Evidence) {
	return func(e *Evidence) {
		e.Run.Flow.Direction, e.Ceiling, e.Back = model.Both, known(ceiling), known(ceilingBack)
		e.Run.Values = []model.Value{{Direction: opposite(e.Direction), Metric: model.Goodput, Value: float64(back)}}
		e.TCP.RTT = known(40 * time.Millisecond)
	}
}

// variesBack is a path on which CUBIC left slow start too early.
func variesBack(e *Evidence) {
	e.Ceiling, e.RTT, e.TCP.RTTMin, e.TCP.RTT = known(units.BitRate(7.63e6)), known(200*time.Millisecond), known(200*time.Millisecond), known(230*time.Millisecond)
	e.Sender.moved("tcp_slow_start_left_by_delay", 1, "tcp_slow_start_left_windows", 49)
	e.Beside.Jitter, e.Beside.JitterBack = known(300*time.Microsecond), known(28*time.Millisecond)
	rates(e, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5)
}

func backCases() []aCase {
	after := func(changes ...func(*Evidence)) func(*Evidence) {
		return func(e *Evidence) {
			for _, c := range changes {
				c(e)
			}
		}
	}
	return []aCase{
		{name: "acknowledgements fill the way back", rate: 41.12e6, change: backFull, rule: "R01", at: nowhere, allows: 41.12e6, says: "1776 a second come through, one for every 2.0 segments", misses: "whether datagrams"},
		{name: "and datagrams are faster", rate: 41.12e6, change: after(backFull, func(e *Evidence) {
			e.Beside.Ladder = []Rung{{Sent: 61.68e6, Received: 61.68e6, Size: 1448, Got: 10000}}
		}), rule: "R01", at: nowhere, alone: true},
		{name: "and are not", rate: 41.12e6, change: after(backFull, func(e *Evidence) {
			e.Beside.Ladder = []Rung{{Sent: 61.68e6, Received: 41.5e6, Size: 1448, Got: 10000, Lost: 5000}}
		}), rule: "B06", at: nowhere, without: "R01"},
		{name: "few acknowledgements leave the way back free", rate: 41.12e6, change: after(backFull, func(e *Evidence) { e.TCP.SegmentsIn = known(int64(1200)) }), rule: "unknown", without: "R01"},
		{name: "they wait nowhere", rate: 41.12e6, change: after(backFull, func(e *Evidence) { e.TCP.RTT = e.TCP.RTTMin }), rule: "unknown", without: "R01"},
		{name: "an acknowledgement for each segment is another fault", rate: 20.5e6, change: backFull, rule: "unknown", without: "R01"},
		{name: "a way back faster than was measured there", rate: 41.12e6, change: after(backFull, func(e *Evidence) { e.Back, e.Other = known(units.BitRate(94e6)), known(units.BitRate(300e3)) }), rule: "unknown", without: "R01"},
		{name: "acknowledgements wait behind data once both directions are busy", rate: 7.522e6, change: after(beside(933e3, 1.074e6, 907e3), func(e *Evidence) { e.Ceiling = known(units.BitRate(7.532e6)) }),
			rule: "R01", at: nowhere, beside: true, says: "1.074 Mbit/s of 7.522 Mbit/s alone arrive", misses: "whether both directions share one medium"},
		{name: "and datagrams pass both ways", rate: 7.522e6, change: after(beside(933e3, 1.074e6, 907e3), func(e *Evidence) { e.Ceiling, e.Beside.Pass = known(units.BitRate(7.532e6)), known(true) }),
			rule: "R01", at: nowhere, beside: true, says: "so that the directions do not take turns"},
		{name: "and datagrams do not", rate: 7.522e6, change: after(beside(933e3, 1.074e6, 907e3), func(e *Evidence) { e.Ceiling, e.Beside.Pass = known(units.BitRate(7.532e6)), known(false) }),
			rule: "B18", at: nowhere, beside: true, without: "R01"},
		{name: "the slower direction waits for nothing", rate: 933e3, change: after(beside(7.522e6, 907e3, 1.074e6), func(e *Evidence) { e.Ceiling = known(units.BitRate(941e3)) }), rule: "ceiling", at: atSender, alone: true},
		{name: "acknowledgements wait behind data in a run of both directions", rate: 3.7e6, change: bidir(7.53e6, 941e3, 890e3), rule: "R01", at: nowhere, says: "of 7.53 Mbit/s that the link can carry"},
		{name: "a run of both directions on ways of their own", rate: 7.4e6, change: bidir(7.53e6, 941e3, 890e3), rule: "ceiling", at: atSender, without: "R01"},
		{name: "a run of both directions on one medium", rate: 9.02e6, change: bidir(18.83e6, 18.83e6, 9.27e6), rule: "B18", at: nowhere, says: "48 % and 49 % of that", misses: "what each direction carries alone"},
		{name: "a run of both directions that carries less", rate: 5e6, change: bidir(18.83e6, 18.83e6, 6e6), rule: "unknown", without: "B18"},
		{name: "a slower stage in a run of both directions may be a shared one", rate: 18.57e6, change: after(bidir(94.15e6, 94.15e6, 18.71e6), func(e *Evidence) { rates(e, 1, 1.01, 0.99, 1) }), rule: "B06", at: nowhere, says: "or 37.28 Mbit/s that both directions share"},
		{name: "one medium of unequal rates", rate: 6.9e6, change: beside(1.8e6, 0.5e6, 1.7e6), rule: "B18", at: nowhere, says: "7 % of the 6.9 Mbit/s and 94 % of the 1.8 Mbit/s"},
		{name: "processors ran short while both directions were busy", rate: 500e6, change: after(beside(505e6, 260e6, 250e6), func(e *Evidence) { e.Beside.Crowded = true }), rule: "unknown", without: "B18"},
		{name: "round trips that vary end slow start", rate: 4.96e6, change: variesBack, rule: "B14b", at: nowhere, help: "tcp.congestion_control", says: "ended at 49 segments, because round trips grew and before anything was lost; the path holds 132; delays vary by 28 ms on the way back only", without: "B14"},
		{name: "a slow start that ended where the path was full", rate: 4.96e6, change: after(variesBack, func(e *Evidence) { e.Sender.moved("tcp_slow_start_left_windows", 120) }), rule: "unknown", at: nowhere, without: "B14b"},
		{name: "one after which the path got full at last, and its queue overflowed", rate: 6.4e6, change: after(variesBack, func(e *Evidence) {
			e.Samples = nil
			rates(e, 0.6, 0.7, 0.9, 1.1, 1.16, 1.16, 0.85, 1.46)
			resent(e, 26, 1)
			e.Samples = append(e.Samples, model.Sample{Host: e.Sender.Host, Direction: e.Direction, Metric: model.Retransmits, Start: 6 * time.Second, Length: time.Second, Value: 26})
		}), rule: "B14b", at: nowhere},
		{name: "one that ended in losses", rate: 4.96e6, change: after(variesBack, func(e *Evidence) { resent(e, 30, 3) }), rule: "B06", without: "B14b"},
	}
}

func pathCases() []aCase {
	dead := func(small bool) func(*Evidence) {
		return func(e *Evidence) {
			e.Run.State, e.Receiver.Flow.Bytes = model.RunInvalid, 0
			e.Sender.moved("tcp_timeouts", 3)
			if small {
				e.Sender.Report.Latencies = []model.Latency{{Name: "loaded udp", Sent: 200, Lost: 1}}
			}
		}
	}
	return []aCase{
		{name: "nothing arrives", change: dead(false), rule: "dead"},
		{name: "small packets do", change: dead(true), rule: "M2", help: "link.mtu"},
		{name: "nothing arrives between ends of two minds about duplex", change: func(e *Evidence) {
			dead(true)(e)
			nic(&e.Sender, func(n *model.NIC) { n.Media.Duplex = known("half") })
			nic(&e.Receiver, func(n *model.NIC) { n.Media.Duplex = known("full") })
		}, rule: "B02", at: atSender, without: "M2", says: "and nothing of the payload arrived"},
		{name: "and the size is known", change: func(e *Evidence) {
			dead(false)(e)
			e.Beside.Arrives, e.Beside.TooBigReported = known(1300), known(false)
		}, rule: "M2", help: "link.mtu"},
		{name: "packets wait while the rate stands still", rate: 550e6, change: func(e *Evidence) {
			e.TCP.RTT = known(25 * time.Millisecond)
			rates(e, 1, 1.01, 0.99, 1)
		}, rule: "B06", at: nowhere},
		{name: "packets wait and the rate does not stand still", rate: 550e6, change: func(e *Evidence) {
			e.TCP.RTT = known(25 * time.Millisecond)
			rates(e, 0.6, 1.4, 0.8, 1.2)
		}, rule: "unknown", without: "B06"},
		{name: "policer", rate: 300e6, change: func(e *Evidence) {
			e.TCP.Congestion = known("bbr")
			resent(e, 9000, 900)
			rates(e, 1, 1.01, 0.99, 1)
		}, rule: "B06", at: nowhere},
		{name: "several connections carry no more than one: policer", rate: 240e6, change: func(e *Evidence) {
			e.TCP.Congestion = known("bbr")
			resent(e, 18000, 480)
			e.Beside.Streams, e.Beside.Several = 2, known(units.BitRate(250e6))
		}, rule: "B06", at: nowhere, allows: 240e6},
		{name: "packets wait all the time: a slower stage, however unevenly it arrives", rate: 26e6, change: func(e *Evidence) { // a recorded one
			e.Ceiling, e.RTT, e.TCP.RTTMin, e.TCP.RTT = known(units.BitRate(73.34e6)), known(19953*time.Microsecond), known(19953*time.Microsecond), known(241*time.Millisecond)
			resent(e, 735, 2) // in bursts, where the long queue overflows
			rates(e, 0.40, 1.29, 1.31, 1, 1)
			trips(e, 320.9, 303.5, 162.1, 163.6, 178.8)
		}, rule: "B06", at: nowhere, allows: 26e6, without: "B10", alone: true},
		{name: "a paced sender has a queue between its probes", rate: 26e6, change: func(e *Evidence) {
			e.Ceiling, e.RTT, e.TCP.RTTMin, e.TCP.RTT = known(units.BitRate(73.34e6)), known(19953*time.Microsecond), known(19953*time.Microsecond), known(41*time.Millisecond)
			e.TCP.Congestion = known("bbr")
			rates(e, 0.40, 1.29, 1.31, 1, 1)
			trips(e, 41, 43, 38, 40, 44)
		}, rule: "unknown", without: "B06"},
		{name: "a queue that runs empty is none that limits", rate: 26e6, change: func(e *Evidence) {
			e.Ceiling, e.RTT, e.TCP.RTTMin, e.TCP.RTT = known(units.BitRate(73.34e6)), known(19953*time.Microsecond), known(19953*time.Microsecond), known(241*time.Millisecond)
			rates(e, 0.40, 1.29, 1.31, 1, 1)
			trips(e, 320.9, 303.5, 20.1, 163.6, 178.8)
		}, rule: "unknown", without: "B06"},
		{name: "packets wait while a program waits for a processor, and its connection does not", rate: 0.48e6, change: func(e *Evidence) {
			e.Ceiling, e.RTT, e.TCP.RTTMin, e.TCP.RTT = known(units.BitRate(1.327e6)), known(2599*time.Microsecond), known(2599*time.Microsecond), known(188*time.Millisecond)
			trips(e, 194.3, 156.6, 196.8, 143.5, 181.9)
			e.Receiver.moved("thread_wait_ms", 4000)
		}, rule: "B06", at: nowhere},
		{name: "packets wait while a quota stops the sender", rate: 398e6, change: func(e *Evidence) { // a recorded one
			e.RTT, e.TCP.RTTMin, e.TCP.RTT, e.TCP.Congestion = known(6*time.Millisecond), known(6*time.Millisecond), known(9510*time.Microsecond), known("bbr")
			rates(e, 1.02, 1, 0.95, 1.03, 1)
			e.Sender.moved("cgroup_throttled_ms", 7100)
		}, rule: "B16", at: atSender, without: "B06"},
		{name: "bursts of paced UDP are lost while a quota stops the sender", rate: 300e6, change: func(e *Evidence) {
			e.Sender.moved("cgroup_throttled_ms", 8600)
			e.Beside.Ladder = []Rung{{Sent: 200e6, Received: 200e6, Size: 1448}, {Sent: 500e6, Received: 300e6, Size: 1448, Lost: 10000, Got: 15000}}
		}, rule: "B16", at: atSender, without: "B06"},
		{name: "packets wait, and the hypervisor has the processors", rate: 0.48e6, change: func(e *Evidence) {
			e.Ceiling, e.RTT, e.TCP.RTTMin, e.TCP.RTT = known(units.BitRate(1.327e6)), known(2599*time.Microsecond), known(2599*time.Microsecond), known(188*time.Millisecond)
			trips(e, 194.3, 156.6, 196.8, 143.5, 181.9)
			e.Receiver.moved("cpu_steal_ms", 20000)
		}, rule: "B23", at: atReceiver, without: "B06"},
		{name: "several connections carry no more than one: a slower stage, whatever it drops", rate: 120e6, change: func(e *Evidence) {
			resent(e, 10, 10)
			e.Beside.Streams, e.Beside.Several = 2, known(units.BitRate(122e6))
		}, rule: "B06", at: nowhere, without: "B10"},
		{name: "several connections carry more: loss", rate: 120e6, change: func(e *Evidence) {
			resent(e, 10, 10)
			e.Beside.Streams, e.Beside.Several = 2, known(units.BitRate(230e6))
		}, rule: "B10", at: atSender, without: "B06"},
		{name: "knee of the ladder", rate: 280e6, change: func(e *Evidence) {
			e.Beside.Ladder = []Rung{{Sent: 200e6, Received: 200e6, Size: 1448}, {Sent: 500e6, Received: 300e6, Size: 1448, Lost: 10000, Got: 15000}}
		}, rule: "B06", at: nowhere, allows: 300e6},
		{name: "knee of the ladder, and no counters of the receiver", rate: 280e6, change: func(e *Evidence) {
			e.Beside.Ladder = []Rung{{Sent: 500e6, Received: 300e6, Size: 1448, Lost: 10000, Got: 15000, Unseen: true}}
		}, rule: "B06", at: nowhere, allows: 300e6},
		{name: "TCP is faster than the datagrams: the path does not lose them", rate: 800e6, change: func(e *Evidence) {
			e.Beside.Ladder = []Rung{{Sent: 500e6, Received: 300e6, Size: 1448, Lost: 10000, Got: 15000}}
		}, rule: "unknown", without: "B06"},
		{name: "only the rung above TCP's rate meets the policer", rate: 240e6, change: func(e *Evidence) {
			e.TCP.Congestion = known("bbr")
			resent(e, 9000, 480)
			e.Beside.Ladder = []Rung{{Sent: 120e6, Received: 120e6, Size: 1448}, {Sent: 228e6, Received: 227e6, Size: 1448, Lost: 70, Got: 19000}, {Sent: 360e6, Received: 250e6, Size: 1448, Lost: 9000, Got: 21000}}
		}, rule: "B06", at: nowhere, allows: 250e6},
		{name: "the rung above TCP's rate arrives: the path carries more, and TCP's losses are its limit", rate: 120e6, change: func(e *Evidence) {
			resent(e, 10, 10)
			e.Beside.Ladder = []Rung{{Sent: 114e6, Received: 114e6, Size: 1448, Got: 1900}, {Sent: 180e6, Received: 180e6, Size: 1448, Got: 3000}}
		}, rule: "B10", at: atSender, without: "B06"},
		{name: "the hosts dropped what the ladder lost", rate: 280e6, change: func(e *Evidence) {
			e.Beside.Ladder = []Rung{{Sent: 500e6, Received: 300e6, Size: 1448, Lost: 10000, Got: 15000, Host: 9000}}
		}, rule: "unknown", without: "B06"},
		{name: "the ladder goes on to the top", rate: 280e6, change: func(e *Evidence) {
			e.Beside.Ladder = []Rung{{Sent: 900e6, Received: 899e6, Size: 1448}}
		}, rule: "unknown", without: "B06"},
		{name: "shaper of its own", rate: 100e6, change: func(e *Evidence) {
			e.Sender.Facts.Qdisc = known("tbf")
			e.Sender.moved("qdisc_overlimits/eth0", 9000, "qdisc_dropped/eth0", 40)
		}, rule: "B06", at: atSender, help: "qdisc"},
		{name: "packets that wait at a shaper of its own", rate: 2.696e6, change: func(e *Evidence) { // a recorded one
			stillStands(e)
			e.Sender.Facts.Qdisc, e.TCP.SegmentsOut = known("tbf"), known(int64(590))
			e.Sender.moved("qdisc_overlimits/eth0", 1913)
		}, rule: "B06", at: atSender, help: "qdisc", alone: true},
		{name: "packets that wait behind a shaper which hardly held any", rate: 2.696e6, change: func(e *Evidence) {
			stillStands(e)
			e.Sender.Facts.Qdisc, e.TCP.SegmentsOut = known("tbf"), known(int64(590))
			e.Sender.moved("qdisc_overlimits/eth0", 5)
		}, rule: "B06", at: nowhere, alone: true},
		{name: "a queueing discipline without a rate", rate: 100e6, change: func(e *Evidence) {
			e.Sender.moved("qdisc_overlimits/eth0", 9000)
		}, rule: "unknown", without: "B06"},
		{name: "both directions share a bus", rate: 500e6, change: func(e *Evidence) {
			e.Other, e.Beside.Together, e.Beside.TogetherBack = known(units.BitRate(505e6)), known(units.BitRate(260e6)), known(units.BitRate(250e6))
		}, rule: "B18"},
		{name: "a direction that its window limits falls as its round trip grows, and shares nothing", rate: 429e6, change: func(e *Evidence) {
			beside(223.8e6, 427.2e6, 42.9e6)(e)
			e.Windowed = true
		}, rule: "unknown", without: "B18"},
		{name: "both directions share the PCI bus of a card", rate: 240e6, change: func(e *Evidence) {
			e.Other, e.Beside.Together, e.Beside.TogetherBack = known(units.BitRate(245e6)), known(units.BitRate(130e6)), known(units.BitRate(120e6))
			nic(&e.Receiver, oldPCI)
			nic(&e.Sender, func(n *model.NIC) {
				n.Bus = model.Bus{Kind: known("pcie"), Width: known(1), Clock: known(2.5), Allows: known(units.BitRate(2e9))}
			})
		}, rule: "B18", at: atReceiver, says: "eth0 of the receiver is on a PCI bus of 32 bit at 33 MHz, which carries 1.067 Gbit/s at most, of both directions and all of its cards together"},
		{name: "both directions share USB 2", rate: 200e6, change: func(e *Evidence) {
			e.Other, e.Beside.Together, e.Beside.TogetherBack = known(units.BitRate(205e6)), known(units.BitRate(100e6)), known(units.BitRate(100e6))
			nic(&e.Sender, func(n *model.NIC) { n.Bus = model.Bus{Kind: known("usb"), Allows: known(units.BitRate(480e6))} })
		}, rule: "B18", at: atSender, says: "USB 2 bus, which carries 480 Mbit/s"},
		{name: "packets wait before a stage that may be a PCI bus", rate: 240e6, change: func(e *Evidence) {
			e.TCP.RTT = known(25 * time.Millisecond)
			rates(e, 1, 1.01, 0.99, 1)
			nic(&e.Sender, oldPCI)
		}, rule: "B06", at: nowhere, misses: "whether that stage is the PCI bus of 32 bit at 33 MHz of the sender"},
		{name: "no finding beside an untested PCI bus", rate: 240e6, change: func(e *Evidence) { nic(&e.Receiver, oldPCI) }, rule: "unknown",
			misses: "whether both directions share the PCI bus of 32 bit at 33 MHz of the receiver that limits them"},
		{name: "both directions do not share", rate: 500e6, change: func(e *Evidence) {
			e.Other, e.Beside.Together, e.Beside.TogetherBack = known(units.BitRate(505e6)), known(units.BitRate(480e6)), known(units.BitRate(470e6))
		}, rule: "unknown", without: "B18"},
		{name: "small writes", rate: 50e6, change: func(e *Evidence) {
			e.Sender.Flow.Bytes, e.Run.Flow.Block = 100000*64, 64
		}, rule: "B29", at: atSender},
		{name: "small MTU", rate: 50e6, change: func(e *Evidence) {
			e.TCP.MSS, e.TCP.PathMTU, e.Receiver.Facts.MTU, e.Sender.Flow.Bytes = known(524), known(576), known(576), 100000*524
			e.Ceiling = known(units.BitRate(51e6))
		}, rule: "B29", at: atReceiver, help: "link.mtu", beside: true},
		{name: "bloated queue", rate: 935e6, change: func(e *Evidence) { e.TCP.RTT = known(400 * time.Millisecond) }, rule: "B30", beside: true},
		{name: "a queue of one round trip", rate: 935e6, change: func(e *Evidence) { e.TCP.RTT = known(20 * time.Millisecond) }, rule: "ceiling", at: atSender, without: "B30"},
		{name: "a queue of one round trip of a long path", rate: 935e6, change: func(e *Evidence) {
			e.RTT, e.TCP.RTTMin, e.TCP.RTT = known(300*time.Millisecond), known(300*time.Millisecond), known(600*time.Millisecond)
		}, rule: "ceiling", at: atSender, without: "B30"},
		{name: "bloated queue of a long path", rate: 35.5e6, change: func(e *Evidence) {
			e.Ceiling, e.RTT, e.TCP.RTT = known(units.BitRate(35.59e6)), known(32600*time.Microsecond), known(162500*time.Microsecond)
		}, rule: "B30", beside: true},
		{name: "a queue of a slow link is a few packets", rate: 0.93e6, change: func(e *Evidence) {
			e.Ceiling, e.TCP.RTT = known(units.BitRate(0.94e6)), known(130*time.Millisecond)
		}, rule: "ceiling", at: atSender, without: "B30"},
		{name: "one member of a bond", rate: 930e6, change: func(e *Evidence) {
			e.Ceiling, e.Sender.Facts.LinkRate = known(units.BitRate(1.88e9)), known(units.BitRate(2e9))
			nic(&e.Sender, func(n *model.NIC) {
				n.Kind, n.Bond, n.Below = known("bond"), known("802.3ad"), []string{"eth0", "eth1"}
			})
		}, rule: "B40", at: atSender, help: "streams"},
		{name: "several streams on a bond", rate: 930e6, change: func(e *Evidence) {
			e.Ceiling, e.Sender.Facts.LinkRate, e.Streams = known(units.BitRate(1.88e9)), known(units.BitRate(2e9)), 4
			nic(&e.Sender, func(n *model.NIC) {
				n.Kind, n.Bond, n.Below = known("bond"), known("802.3ad"), []string{"eth0", "eth1"}
			})
		}, rule: "unknown", without: "B40"},
		{name: "tunnel", rate: 300e6, change: func(e *Evidence) { nic(&e.Sender, func(n *model.NIC) { n.Kind = known("wireguard") }) }, rule: "B41", at: atSender, beside: true},
		{name: "allowance of a cloud", rate: 300e6, change: func(e *Evidence) { e.Sender.moved("nic_driver/eth0 bw_out_allowance_exceeded", 70) }, rule: "B39", at: atSender},
		{name: "layer", rate: 300e6, change: func(e *Evidence) { e.Sender.Facts.Kernel = known("6.6.87.2-microsoft-standard-WSL2") }, rule: "B43", at: atSender, beside: true},
		{name: "remembered path", rate: 300e6, change: func(e *Evidence) { e.Repeats = []units.BitRate{500e6, 300e6, 290e6, 310e6} }, rule: "B15", at: atSender, beside: true},
		{name: "runs that differ", rate: 300e6, change: func(e *Evidence) { e.Repeats = []units.BitRate{500e6, 300e6, 490e6, 310e6} }, rule: "unknown", without: "B15"},
	}
}

func linkCases() []aCase {
	speeds := func(now units.BitRate) func(*Evidence) {
		return func(e *Evidence) {
			e.Ceiling = known(units.BitRate(0.9415 * float64(now)))
			for _, end := range []*End{&e.Sender, &e.Receiver} {
				nic(end, func(n *model.NIC) {
					n.Media.Speed, n.Media.Supported = known(now), known([]string{"100baseT/Full", "1000baseT/Full"})
				})
			}
		}
	}
	return []aCase{
		{name: "link slower than both cards", rate: 94e6, change: speeds(100e6), rule: "B01", at: atSender, help: "nic.media.autoneg", beside: true},
		{name: "link as fast as both cards", rate: 935e6, change: speeds(1e9), rule: "ceiling", at: atSender, without: "B01"},
		{name: "left slow by waking", rate: 94e6, change: func(e *Evidence) {
			speeds(100e6)(e)
			e.Sender.Facts.Knobs["nic.wol"], e.Receiver.Facts.Knobs["nic.wol"] = known("g"), known("g")
		}, rule: "B27", at: atSender, beside: true},
		{name: "duplex mismatch", rate: 30e6, change: func(e *Evidence) {
			nic(&e.Sender, func(n *model.NIC) { n.Media.Duplex = known("full") })
			nic(&e.Receiver, func(n *model.NIC) { n.Media.Duplex = known("half") })
		}, rule: "B02", at: atReceiver, help: "nic.media.autoneg"},
		{name: "both full", rate: 30e6, change: func(e *Evidence) {
			nic(&e.Sender, func(n *model.NIC) { n.Media.Duplex = known("full") })
			nic(&e.Receiver, func(n *model.NIC) { n.Media.Duplex = known("full") })
		}, rule: "unknown", without: "B02"},
		{name: "half duplex by the default of an emulated card's driver", rate: 935e6, change: func(e *Evidence) {
			for _, end := range []*End{&e.Sender, &e.Receiver} {
				nic(end, func(n *model.NIC) {
					n.Media.Duplex, n.Media.Supported, n.Bus.Kind = known("half"), known([]string{}), known("virtual")
				})
			}
		}, rule: "ceiling", at: atSender, without: "B03"},
		{name: "half duplex at both", rate: 935e6, change: func(e *Evidence) {
			nic(&e.Sender, func(n *model.NIC) { n.Media.Duplex = known("half") })
			nic(&e.Receiver, func(n *model.NIC) { n.Media.Duplex = known("half") })
		}, rule: "B03", beside: true},
		{name: "broken frames", rate: 100e6, change: func(e *Evidence) { e.Receiver.moved("nic_rx_crc_errors", 40, "nic_rx_packets", 100000) }, rule: "B04", at: atReceiver},
		{name: "one broken frame of many", rate: 100e6, change: func(e *Evidence) { e.Receiver.moved("nic_rx_crc_errors", 1, "nic_rx_packets", 100000) }, rule: "unknown", without: "B04"},
		{name: "link that goes down", rate: 100e6, change: func(e *Evidence) { e.Sender.moved("nic_tx_carrier_errors", 2) }, rule: "B25", at: atSender},
		{name: "link that was lost", rate: 100e6, change: func(e *Evidence) { e.Receiver.moved("nic_carrier_down", 1) }, rule: "B25", at: atReceiver},
		{name: "pause frames", rate: 100e6, change: func(e *Evidence) { e.Sender.moved("nic_driver/eth0 rx_pause_frames", 250) }, rule: "B05", at: atReceiver, help: "nic.pause.rx"},
		{name: "a few pause frames", rate: 100e6, change: func(e *Evidence) { e.Sender.moved("nic_driver/eth0 rx_pause_frames", 20) }, rule: "unknown", without: "B05"},
		{name: "MTU of the ends differs", rate: 935e6, change: func(e *Evidence) { e.Sender.Facts.MTU = known(9000) }, rule: "M1", at: atReceiver, help: "link.mtu", beside: true},
		{name: "path with smaller packets", rate: 935e6, change: func(e *Evidence) { e.TCP.PathMTU = known(1420) }, rule: "M8", beside: true},
		{name: "loopback, whose MTU is larger than a packet can be", rate: 800e6, change: func(e *Evidence) {
			e.Sender.Facts.MTU, e.Receiver.Facts.MTU, e.TCP.PathMTU = known(65536), known(65536), known(65535)
		}, rule: "unknown", without: "M8"},
	}
}
