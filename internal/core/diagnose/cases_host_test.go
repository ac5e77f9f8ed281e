package diagnose

import (
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func hostCases() []aCase {
	shut := func(e *Evidence) {
		window(65536, 0.6)(e)
		e.Receiver.Facts.Knobs["tcp.recv_buffer_max"] = known("33554432")
	}
	return []aCase{
		{name: "quota of the receiver", rate: 50e6, change: func(e *Evidence) {
			shut(e)
			e.Receiver.moved("cgroup_throttled_ms", 7000)
		}, rule: "B16", at: atReceiver, without: "B21"},
		{name: "a quota that stops a process on several cores at once, and shuts its window", rate: 50e6, change: func(e *Evidence) {
			shut(e)
			e.TCP.PeerWindow = known(units.Bytes(0))
			e.Receiver.moved("cgroup_throttled_ms", 23600)
		}, rule: "B16", at: atReceiver, says: "a quota of processor time stopped the process for 100 % of the time", without: "B07"},
		{name: "the same, of a kernel that counts periods", rate: 50e6, change: func(e *Evidence) {
			shut(e)
			e.TCP.PeerWindow = known(units.Bytes(0))
			e.Receiver.moved("cgroup_throttled_ms", 23600)
			e.Receiver.moved("cgroup_periods", 100)
			e.Receiver.moved("cgroup_periods_throttled", 93)
		}, rule: "B16", at: atReceiver, says: "a quota of processor time was used up in 93 % of its periods, and stopped the process", without: "B07"},
		{name: "the same, of one of version 1 or 2 whose size is known", rate: 50e6, change: func(e *Evidence) {
			shut(e)
			e.Receiver.moved("cgroup_throttled_ms", 23600, "cgroup_quota_ms", 2000, "cpu_window_ms", 10000)
		}, rule: "B16", at: atReceiver, says: "a quota of 0.2 processors stopped the process for 100 % of the time"},
		{name: "more time than there was", rate: 500e6, change: func(e *Evidence) {
			e.Receiver.moved("cpu_window_ms", 1000, "thread_run_ms", 9900)
		}, rule: "fault", at: atReceiver, beside: true, says: "more time than there was: thread_run_ms is 9900 ms in 1000 ms", without: "B16"},
		{name: "a quota that is hardly used up", rate: 50e6, change: func(e *Evidence) {
			shut(e)
			e.Receiver.moved("cgroup_throttled_ms", 200)
		}, rule: "B21", at: atReceiver, without: "B16"},
		{name: "quota of the sender", rate: 50e6, change: func(e *Evidence) {
			e.TCP.Busy = known(4 * time.Second)
			e.Sender.moved("cgroup_throttled_ms", 6000)
		}, rule: "B16", at: atSender, without: "B21"},
		{name: "the sender waits for a processor, which is most of a small gap", rate: 760e6, change: func(e *Evidence) {
			e.TCP.Busy = known(8500 * time.Millisecond)
			e.Sender.moved("thread_wait_ms", 5200)
		}, rule: "B16", at: atSender},
		{name: "the sender waits, which is little of a large gap", rate: 100e6, change: func(e *Evidence) {
			e.TCP.Busy = known(8500 * time.Millisecond)
			e.Sender.moved("thread_wait_ms", 5200)
		}, rule: "unknown", without: "B16"},
		{name: "the receiver's thread waits for a processor", rate: 50e6, change: func(e *Evidence) {
			shut(e)
			e.Receiver.moved("thread_wait_ms", 6000)
		}, rule: "B16", at: atReceiver},
		{name: "a thread that waits while all processors are busy: others have them", rate: 50e6, change: func(e *Evidence) {
			shut(e)
			e.Receiver.moved("thread_wait_ms", 6000, "cpu_busy_ms/cpu0", 9900, "cpu_busy_ms/cpu1", 9900, "cpu_busy_ms/cpu2", 9900, "cpu_busy_ms/cpu3", 9900)
		}, rule: "B16", at: atReceiver, says: "other programs had it"},
		{name: "a thread that waits while processors are idle: a quota", rate: 50e6, change: func(e *Evidence) {
			shut(e)
			e.Receiver.moved("thread_wait_ms", 6000)
		}, rule: "B16", at: atReceiver, says: "a quota stops it"},
		{name: "a thread that waits nearly all the time, behind no shut window", rate: 180e6, change: func(e *Evidence) { // acknowledged late
			e.Receiver.moved("thread_run_ms", 600, "thread_wait_ms", 8800)
		}, rule: "B16", at: atReceiver, says: "no processor for 88 % of the time"},
		{name: "a sender that waits nearly all the time and takes slowing down back", rate: 180e6, change: func(e *Evidence) {
			resent(e, 100, 14)
			e.Sender.moved("thread_wait_ms", 7400, "tcp_undone_by_duplicates", 7)
			e.Sender.Facts.Kernel = known("5.15.0") // whose work is not what limits
		}, rule: "B16", at: atSender, without: "B11"},
		{name: "what waits for others is made no faster by a newer kernel", rate: 180e6, change: func(e *Evidence) {
			e.Receiver.moved("thread_wait_ms", 8800)
			e.Receiver.Facts.Kernel = known("5.15.0")
		}, rule: "B16", at: atReceiver, without: "B42"},
		{name: "a thread that waits while nothing waits for it", rate: 50e6, change: func(e *Evidence) { e.Receiver.moved("thread_wait_ms", 4000) }, rule: "unknown", without: "B16"},
		{name: "a thread that never sleeps", rate: 500e6, change: func(e *Evidence) { e.Receiver.moved("thread_run_ms", 9900) }, rule: "B16", at: atReceiver, help: "streams"},
		{name: "a thread that polls never sleeps either", rate: 500e6, change: func(e *Evidence) {
			e.Receiver.moved("thread_run_ms", 9900)
			e.Receiver.Report.Waiting = "poller"
		}, rule: "unknown", without: "B16"},
		{name: "one core full of packets", rate: 500e6, change: func(e *Evidence) {
			e.Receiver.moved("cpu_busy_ms/cpu2", 9800, "cpu_softirq_ms/cpu2", 8000)
		}, rule: "B16", at: atReceiver},
		{name: "one core full of something else", rate: 500e6, change: func(e *Evidence) { e.Receiver.moved("cpu_busy_ms/cpu2", 9800) }, rule: "unknown", without: "B16"},
		{name: "a process without counters", rate: 500e6, change: func(e *Evidence) {
			e.Sender.Counters, e.Sender.CPU = Counters{}, known(0.99)
		}, rule: "B16", at: atSender},
		{name: "stolen time", rate: 500e6, change: func(e *Evidence) { e.Receiver.moved("cpu_steal_ms", 8000) }, rule: "B23", at: atReceiver},
		{name: "stolen time that explains next to nothing", rate: 50e6, change: func(e *Evidence) { e.Receiver.moved("cpu_steal_ms", 2800) }, rule: "unknown", without: "B23"},
		{name: "stolen time beside what limits", rate: 50e6, change: func(e *Evidence) {
			window(65536, 0.7)(e)
			e.Receiver.moved("cpu_steal_ms", 2800)
		}, rule: "B07", at: atReceiver, alone: true},
		{name: "threads that wait on a path that is nearly full", rate: 870e6, change: func(e *Evidence) {
			e.TCP.Busy = known(7 * time.Second)
			e.Sender.moved("thread_wait_ms", 3000)
		}, rule: "ceiling", at: atSender, alone: true},
		{name: "a little stolen time", rate: 500e6, change: func(e *Evidence) { e.Receiver.moved("cpu_steal_ms", 1000) }, rule: "unknown", without: "B23"},
		{name: "receive ring", rate: 120e6, change: func(e *Evidence) {
			resent(e, 400, 100)
			e.Receiver.moved("nic_rx_missed", 380, "cpu_busy_ms/cpu1", 9000)
		}, rule: "B17", at: atReceiver, help: "nic.ring.rx", without: "B10"},
		{name: "a full ring before which packets waited", rate: 120e6, change: func(e *Evidence) {
			resent(e, 14, 10)
			e.Receiver.moved("nic_rx_missed", 9635, "cpu_busy_ms/cpu1", 9000)
		}, rule: "B10", at: atSender, without: "B17"},
		{name: "receive ring with idle cores", rate: 120e6, change: func(e *Evidence) {
			resent(e, 400, 100)
			e.Receiver.moved("nic_rx_missed", 380)
		}, rule: "B33", at: atReceiver},
		{name: "backlog", rate: 120e6, change: func(e *Evidence) {
			resent(e, 400, 100)
			e.Receiver.moved("softnet_dropped/cpu1", 400)
		}, rule: "B17", at: atReceiver, help: "rx.backlog"},
		{name: "backlog of a virtual device", rate: 120e6, change: func(e *Evidence) {
			resent(e, 400, 100)
			e.Receiver.moved("softnet_dropped/cpu1", 400)
			nic(&e.Receiver, func(n *model.NIC) { n.Kind = known("veth") })
		}, rule: "B37", at: atReceiver, help: "rx.backlog"},
		{name: "the sender's own queue", rate: 120e6, change: func(e *Evidence) {
			resent(e, 400, 100)
			e.Sender.moved("qdisc_dropped/eth0", 399)
		}, rule: "B17", at: atSender, help: "txqueuelen"},
		{name: "drops that do not explain what was sent again", rate: 120e6, change: func(e *Evidence) {
			resent(e, 10, 10)
			e.Receiver.moved("nic_rx_missed", 2)
		}, rule: "B10", at: atSender, without: "B17"},
		{name: "socket memory", rate: 120e6, change: func(e *Evidence) { e.Receiver.moved("tcp_memory_pressures", 3) }, rule: "B12", at: atReceiver, help: "tcp.mem_limit"},
		{name: "bus", rate: 900e6, change: func(e *Evidence) {
			e.Ceiling = known(units.BitRate(9.4e9))
			nic(&e.Receiver, func(n *model.NIC) { n.Bus.Allows = known(units.BitRate(1.0e9)) })
		}, rule: "B18", at: atReceiver, allows: 1e9},
		{name: "bus that is wide enough", rate: 400e6, change: func(e *Evidence) {
			nic(&e.Receiver, func(n *model.NIC) { n.Bus.Allows = known(units.BitRate(1.0e9)) })
		}, rule: "unknown", without: "B18"},
		{name: "host that carries no more to itself", rate: 400e6, change: func(e *Evidence) { e.Receiver.Loopback = known(units.BitRate(440e6)) }, rule: "B19", at: atReceiver},
		{name: "host that carries more to itself", rate: 400e6, change: func(e *Evidence) { e.Receiver.Loopback = known(units.BitRate(4e9)) }, rule: "unknown", without: "B19"},
		{name: "disk", rate: 935e6, change: func(e *Evidence) { e.Beside.File, e.Beside.FileHost = known(units.BitRate(200e6)), e.Receiver.Host }, rule: "B22", at: atReceiver, beside: true},
		{name: "emulated card", rate: 300e6, change: func(e *Evidence) {
			e.Receiver.Facts.Machine = &model.Machine{Virtual: known("kvm")}
			nic(&e.Receiver, func(n *model.NIC) { n.Driver = known("e1000") })
		}, rule: "B31", at: atReceiver},
		{name: "emulated card of nobody", rate: 300e6, change: func(e *Evidence) {
			e.Receiver.Facts.Machine = &model.Machine{Virtual: known(model.NoName)}
			nic(&e.Receiver, func(n *model.NIC) { n.Driver = known("em") })
		}, rule: "B31", at: atReceiver, says: "emulated by a hypervisor that does not give its name"},
		{name: "the same card without a hypervisor", rate: 300e6, change: func(e *Evidence) {
			e.Receiver.Facts.Machine = &model.Machine{Virtual: known("none")}
			nic(&e.Receiver, func(n *model.NIC) { n.Driver = known("e1000") })
		}, rule: "unknown", without: "B31"},
		{name: "old bbr", rate: 300e6, change: func(e *Evidence) {
			e.TCP.Congestion, e.Sender.Facts.Kernel, e.Sender.Facts.Qdisc = known("bbr"), known("4.9.0"), known("pfifo_fast")
		}, rule: "B36", at: atSender, help: "qdisc"},
		{name: "bbr of today paces by itself", rate: 300e6, change: func(e *Evidence) {
			e.TCP.Congestion, e.Sender.Facts.Qdisc = known("bbr"), known("pfifo_fast")
		}, rule: "unknown", without: "B36"},
		{name: "interrupt moderation", rate: 50e6, change: func(e *Evidence) {
			window(65536, 0.7)(e)
			e.Receiver.Facts.Knobs["nic.coalesce.rx_usecs"] = known("6000")
		}, rule: "B28", at: atReceiver, beside: true},
		{name: "old kernel where the processor limits", rate: 500e6, change: func(e *Evidence) {
			e.Receiver.moved("thread_run_ms", 9900)
			e.Receiver.Facts.Kernel = known("5.15.0")
		}, rule: "B42", at: atReceiver, beside: true},
		{name: "old kernel alone", rate: 500e6, change: func(e *Evidence) { e.Receiver.Facts.Kernel = known("5.15.0") }, rule: "unknown", without: "B42"},
	}
}

// bbr has the sender of 941 Mbit/s and 10 ms use bbr with the given estimate of the rate, send
// again of 100000 segments again, and see a round trip of millis.
func bbr(rate units.BitRate, again int, millis float64) func(*Evidence) {
	return func(e *Evidence) {
		resent(e, again, again/2)
		e.TCP.Congestion, e.TCP.RTT = known("bbr"), known(seconds(millis/1000))
		e.TCP.BBR = &model.BBRSummary{Rate: known(rate), RTTMin: known(10 * time.Millisecond), Steady: known(0.7)}
	}
}

// after applies changes in order.
func after(changes ...func(*Evidence)) func(*Evidence) {
	return func(e *Evidence) {
		for _, c := range changes {
			c(e)
		}
	}
}

// ladder are paced datagrams at several rates.
func ladder(rungs ...Rung) func(*Evidence) { return func(e *Evidence) { e.Beside.Ladder = rungs } }

// flown is a path of 100 Mbit/s and 80 ms, which holds 650 segments. windows holds the window
// at the end of each second, the first of which is warm-up, and again what the sender sent
// again in it. Once, the queue held half a round trip.
func flown(cc string, windows, again []float64) func(*Evidence) {
	return func(e *Evidence) {
		e.Ceiling, e.RTT, e.Window, e.Run.Flow.Omit = known(units.BitRate(94.15e6)), known(80*time.Millisecond), time.Duration(len(windows)-1)*time.Second, time.Second
		e.TCP.RTT, e.TCP.RTTMin, e.TCP.Congestion, e.TCP.Busy = known(80*time.Millisecond), known(80*time.Millisecond), known(cc), known(e.Window)
		sum := 0.0
		for i, w := range windows {
			trip := 0.0805
			if i == 0 {
				trip = 0.128
			}
			sum += again[i]
			for m, v := range map[model.Metric]float64{model.RTT: trip, model.Cwnd: w * 1448, model.Retransmits: again[i], model.Goodput: min(94e6, w*1448*8/0.0805)} {
				at := e.Sender.Host
				if m == model.Goodput {
					at = e.Receiver.Host
				}
				e.Samples = append(e.Samples, model.Sample{Host: at, Direction: e.Direction, Metric: m, Start: time.Duration(i) * time.Second, Length: time.Second, Value: v, Omitted: i == 0})
			}
		}
		resent(e, int(sum), len(again)-1)
		e.TCP.Retransmits, e.TCP.SegmentsOut = known(int64(sum-again[0])), known(int64(18372))
	}
}

func longCases() []aCase {
	window := window(8<<20, 0.4)
	fills := func(e *Evidence) { e.Receiver.Facts.Knobs["tcp.recv_buffer_max"] = known("33554432") }
	level := func(e *Evidence) { rates(e, 1, 1, 1, 1) }
	later := func(most int64) func(*Evidence) { return func(e *Evidence) { e.TCP.BBR.InFlight = known(most) } }
	drained := func(e *Evidence) { rates(e, 1.14, 1.14, 1.14, 0.44, 1.14) }
	fast := Rung{Sent: 380e6, Received: 365e6, Size: 1448, Got: 70, Lost: 30}
	lost := []float64{1306, 3, 0, 1, 0, 1} // a recorded one
	return []aCase{
		{name: "bbr at a loss that it hardly bears", rate: 500e6, change: bbr(600e6, 15000, 10.2), rule: "B10", at: atSender, says: "of which 1.06 times its rate arrive: it hardly", misses: "with any rate", without: "B06"},
		{name: "bbr at a loss that it does not bear", rate: 50e6, change: bbr(60e6, 25000, 10.2), rule: "B10", at: atSender, says: "each try takes it further down; or a policer drops what is too fast: linerate check tells which"},
		{name: "and the receiver's window is full of what came behind", rate: 300e6, change: after(bbr(400e6, 15000, 10.2), window, fills), rule: "B10", at: atSender, without: "B21"},
		{name: "bbr fills the path and a tenth is lost", rate: 800e6, change: bbr(930e6, 10000, 11.5), rule: "B10", at: atSender, says: "bbr fills the path as it sees it (930 Mbit/s), and 10 %", without: "B06"},
		{name: "and datagrams at half the rate all arrive", rate: 800e6, change: after(bbr(930e6, 10000, 11.5), ladder(Rung{Sent: 400e6, Received: 400e6, Size: 1448, Got: 10000})), rule: "B06", at: nowhere, says: "10 % of what it sends is lost; evenly sent datagrams arrive", without: "B10"},
		{name: "a tenth that is lost does not explain half", rate: 400e6, change: bbr(930e6, 10000, 10.2), rule: "unknown", without: "B10"},
		{name: "datagrams get through where bbr loses many: a policer", rate: 390e6, change: after(bbr(400e6, 15000, 10.2), level, ladder(Rung{Sent: 150e6, Received: 150e6, Size: 1448, Got: 10000})), rule: "B06", at: nowhere, without: "B10"},
		{name: "those of one rate do, and not the faster ones", rate: 390e6, change: after(bbr(400e6, 15000, 10.2), level, ladder(Rung{Sent: 294e6, Received: 294e6, Size: 1448, Got: 200}, fast)), rule: "B06", at: nowhere, without: "B10"},
		{name: "some of the slow ones are lost as well", rate: 390e6, change: after(bbr(400e6, 15000, 10.2), level, ladder(Rung{Sent: 294e6, Received: 265e6, Size: 1448, Got: 180, Lost: 20}, fast)), rule: "B10", at: atSender, without: "B06"},
		{name: "two connections carry no more than one: a policer", rate: 390e6, change: after(bbr(400e6, 15000, 10.2), level, func(e *Evidence) { e.Beside.Streams, e.Beside.Several = 2, known(units.BitRate(395e6)) }), rule: "B06", at: nowhere, without: "B10"},
		{name: "datagrams are lost as well", rate: 390e6, change: after(bbr(400e6, 15000, 10.2), level, ladder(Rung{Sent: 150e6, Received: 150e6, Size: 1448, Got: 8500, Lost: 1500})), rule: "B10", at: atSender, without: "B06"},
		{name: "bbr finds a lower rate, and a queue", rate: 390e6, change: after(bbr(400e6, 10, 12), level), rule: "B06", at: nowhere, says: "bbr finds 400 Mbit/s on the way, and packets wait there (12 ms instead of 10 ms)"},
		{name: "bbr finds a lower rate, and losses without a queue", rate: 390e6, change: after(bbr(400e6, 4000, 10.2), level), rule: "B06", at: nowhere, says: "4 % of the segments are cut away without ever waiting", without: "B10"},
		{name: "bbr finds a lower rate, and nothing else", rate: 390e6, change: after(bbr(400e6, 10, 10.2), level), rule: "unknown", without: "B06"},
		{name: "bbr finds twice what arrives", rate: 190e6, change: after(bbr(400e6, 4000, 12), level), rule: "unknown", without: "B06"},
		{name: "bbr's own queue holds up even the least of its round trips", rate: 390e6, change: after(bbr(400e6, 10, 12), level, func(e *Evidence) { e.TCP.BBR.RTTMin = known(11900 * time.Microsecond) }), rule: "B06", at: nowhere, says: "packets wait there (12 ms instead of 10 ms)"},
		{name: "bbr that lets the full path drain once", rate: 820e6, change: after(bbr(938e6, 10, 10.2), drained), rule: "ceiling", at: atSender, says: "87.1 % of the 941.5 Mbit/s that this link can carry; bbr fills it (938 Mbit/s), but for"},
		{name: "bbr that is slower twice", rate: 820e6, change: after(bbr(938e6, 10, 10.2), func(e *Evidence) { rates(e, 1.14, 0.72, 1.14, 0.86, 1.14) }), rule: "unknown", without: "ceiling"},
		{name: "bbr that lets the path drain across the border of two intervals", rate: 820e6, change: after(bbr(938e6, 10, 10.2), func(e *Evidence) { rates(e, 1.14, 1.14, 0.79, 0.79, 1.14) }), rule: "ceiling", at: atSender},
		{name: "a sender that does not pace drains no path", rate: 820e6, change: drained, rule: "unknown", without: "ceiling"},
		{name: "bbr that is still getting faster", rate: 390e6, change: after(bbr(400e6, 10, 12), func(e *Evidence) { rates(e, 0.5, 1, 1.5) }), rule: "unknown", without: "B06"},
		{name: "a processor that is full tells bbr a lower rate", rate: 390e6, change: after(bbr(400e6, 15000, 12), level, func(e *Evidence) { e.Sender.moved("thread_run_ms", 9900) }), rule: "B16", at: atSender, without: "B10"},
		{name: "version 3 bears 2 %", rate: 300e6, change: after(bbr(310e6, 3000, 10.2), later(300)), rule: "B10", at: atSender, says: "no more than 300 segments under way, of the 813"},
		{name: "version 3 with room", rate: 300e6, change: after(bbr(310e6, 900, 10.2), later(800)), rule: "unknown", without: "B10"},

		{name: "two losses in a long flight", rate: 38e6, change: flown("reno", []float64{1311, 331, 343, 179, 192, 103}, lost), rule: "B10", at: atSender, help: "tcp.congestion_control", says: "2 single losses in 6 s, the last 1 s before the end: reno needs 26 s at 80 ms", without: "B06"},
		{name: "of CUBIC, which is back sooner", rate: 64e6, change: flown("cubic", []float64{1311, 460, 480, 330, 420, 450}, []float64{1306, 3, 0, 1, 0, 0}), rule: "B10", at: atSender, says: "cubic needs 8 s at 80 ms"},
		{name: "losses from which the rate does not follow", rate: 12e6, change: flown("reno", []float64{1311, 331, 343, 179, 192, 103}, lost), rule: "unknown", without: "B10"},
		{name: "a queue that was full afterwards", rate: 38e6, change: flown("reno", []float64{1311, 331, 343, 179, 192, 103}, []float64{1306, 1, 0, 1, 0, 40}), rule: "unknown", without: "B10"},
	}
}

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
