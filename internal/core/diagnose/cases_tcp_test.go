package diagnose

import (
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// levelWindow is a path that carries 475 Mbit/s of datagrams at 68 us, with that receive window.
func levelWindow(n units.Bytes) func(*Evidence) {
	return func(e *Evidence) {
		window(n, 0.6)(e)
		e.RTT, e.TCP.RTTMin, e.TCP.RTT = known(60*time.Microsecond), known(60*time.Microsecond), known(68*time.Microsecond)
		e.Receiver.Facts.Knobs["tcp.recv_buffer_max"] = known("8192")
		e.Beside.Ladder = []Rung{{Sent: 235e6, Received: 235e6, Size: 1448}, {Sent: 705e6, Received: 475e6, Size: 1448, Lost: 10000, Got: 21000}}
	}
}

// fewLost is a slow path on which 4 segments are lost in the window. A recorded one.
func fewLost(segments, events int) func(*Evidence) {
	return func(e *Evidence) {
		e.Ceiling, e.RTT = known(units.BitRate(3.455e6)), known(198*time.Millisecond)
		e.TCP.RTT, e.TCP.RTTMin, e.TCP.Cwnd, e.TCP.SegmentsOut, e.TCP.Retransmits = known(209*time.Millisecond), known(201*time.Millisecond), known(units.Bytes(34752)), known(int64(680)), known(int64(4))
		e.Sender.moved("tcp_retransmitted", segments, "tcp_out_segments", 1009, "tcp_recoveries", events)
	}
}

// withoutSACK is a sender that slowed down so often and sent so many segments again, into a window
// that held it up for a share of the time and may grow.
func withoutSACK(segments, events int, size units.Bytes, share float64, pairs ...any) func(*Evidence) {
	return func(e *Evidence) {
		e.TCP.SACK = known(false)
		resent(e, segments, 0)
		e.Sender.moved(append(pairs, "tcp_recoveries_without_sack", events)...)
		window(size, share)(e)
		e.Receiver.Facts.Knobs["tcp.recv_buffer_max"] = known("33554432")
	}
}

// fillsQueue is a send buffer of 4 MiB that is always full, on a path whose queue holds most of
// it: the rate is that of a stage of the path. A recorded one.
func fillsQueue(e *Evidence) {
	e.Ceiling, e.RTT, e.TCP.RTTMin, e.TCP.RTT = known(units.BitRate(250.4e6)), known(78290*time.Microsecond), known(78346*time.Microsecond), known(414*time.Millisecond)
	e.TCP.SndbufLimited = known(10 * time.Second)
	trips(e, 409.3, 414, 415, 413)
}

func windowCases() []aCase {
	untimed := func(own units.Bytes) func(*Evidence) {
		return func(e *Evidence) {
			window(65536, 0)(e)
			e.TCP.RwndLimited, e.Run.Flow.Window = fact.Unknown[time.Duration]("freebsd"), own
		}
	}
	rises := func(e *Evidence) {
		e.RTT, e.Window = known(300*time.Millisecond), 5*time.Second
		e.TCP.Busy, e.TCP.RTT, e.TCP.RTTMin, e.TCP.PeerWindow = known(5*time.Second), known(300*time.Millisecond), known(300*time.Millisecond), known(units.Bytes(64<<20))
		rates(e, 0.2, 0.5, 1.0, 1.6, 1.7)
	}
	scalingOff := func(sender, receiver string) func(*Evidence) {
		return func(e *Evidence) {
			window(65535, 0.7)(e)
			e.TCP.SendScale = fact.Unknown[int]("not negotiated")
			e.Sender.Facts.Knobs["tcp.window_scaling"], e.Receiver.Facts.Knobs["tcp.window_scaling"] = known(sender), known(receiver)
		}
	}
	return []aCase{
		{name: "receive window", rate: 50e6, change: window(65536, 0.7), rule: "B07", at: atReceiver, help: "tcp.recv_buffer_max", allows: 52.4288e6},
		{name: "a window that allows a little less than what arrived allows that", rate: 55e6, change: window(65536, 0.7), rule: "B07", at: atReceiver, allows: 55e6},
		{name: "a share of time below the threshold", rate: 50e6, change: window(65536, 0.19), rule: "unknown", without: "B07"},
		{name: "a bound below what was measured refutes its rule", rate: 100e6, change: window(65536, 0.7), rule: "unknown", without: "B07"},
		{name: "a window far above what was reached", rate: 50e6, change: window(1<<20, 0.7), rule: "unknown", without: "B07"},
		{name: "without the kernel's times the window has to explain the rate", rate: 50e6, change: untimed(0), rule: "B07", at: atReceiver},
		{name: "and where it does not, nothing is said", rate: 40e6, change: untimed(0), rule: "unknown"},
		{name: "but a small one that the test itself set caps it", rate: 40e6, change: untimed(65536), rule: "B07", at: atReceiver, help: "window"},
		{name: "one that allows half as much more does not", rate: 30e6, change: untimed(65536), rule: "unknown"},
		{name: "window of the test itself", rate: 19e6, change: func(e *Evidence) {
			window(24<<10, 0.7)(e)
			e.Run.Flow.Window, e.TCP.SendScale = 24<<10, known(0)
		}, rule: "B07", at: atReceiver, help: "window"},
		{name: "a window that allows about what datagrams show that the path carries stands beside it", rate: 470e6, change: levelWindow(4224), rule: "B06", at: nowhere, allows: 475e6},
		{name: "and says what it allows", rate: 470e6, change: levelWindow(4224), rule: "B07", at: atReceiver, allows: 496.94e6, beside: true},
		{name: "or show the other way", rate: 470e6, change: func(e *Evidence) {
			levelWindow(4224)(e)
			e.Beside.Ladder, e.Beside.LadderBack = []Rung{{Sent: 475e6, Received: 473e6, Size: 1448, Lost: 80, Got: 21000}}, e.Beside.Ladder
		}, rule: "B06", at: nowhere, allows: 470e6, says: "475 Mbit/s of UDP arrive the other way"},
		{name: "a window where datagrams are faster than TCP", rate: 470e6, change: func(e *Evidence) {
			levelWindow(4224)(e)
			e.Beside.Ladder, e.Beside.LadderBack = []Rung{{Sent: 705e6, Received: 703e6, Size: 1448, Got: 31000}}, e.Beside.Ladder
		}, rule: "B07", at: atReceiver, without: "B06"},
		{name: "a window far below what datagrams show limits", rate: 300e6, change: levelWindow(2560), rule: "B07", at: atReceiver, without: "B06"},
		{name: "scaling off at the receiver", rate: 50e6, change: scalingOff("1", "0"), rule: "B09", at: atReceiver, help: "tcp.window_scaling", without: "B07"},
		{name: "scaling off at the sender", rate: 50e6, change: scalingOff("0", "1"), rule: "B09", at: atSender, help: "tcp.window_scaling"},
		{name: "scaling taken away on the way", rate: 50e6, change: scalingOff("1", "1"), rule: "B09", at: atReceiver, help: ""},
		{name: "no scaling, and a window that is not what limits", rate: 50e6, change: func(e *Evidence) {
			scalingOff("1", "0")(e)
			e.TCP.RwndLimited = known(time.Duration(0))
		}, rule: "unknown", without: "B09"},
		{name: "send buffer", rate: 50e6, change: func(e *Evidence) {
			e.TCP.SndbufLimited, e.TCP.SendBuffer = known(5*time.Second), known(units.Bytes(65536))
		}, rule: "B08", at: atSender, help: "tcp.send_buffer_max", allows: 52.4288e6},
		{name: "send buffer by exclusion: the kernel does not count its time", rate: 61e6, change: func(e *Evidence) { // a recorded one
			e.TCP.SndbufLimited, e.TCP.SendBuffer, e.TCP.Cwnd, e.TCP.PeerWindow = known(300*time.Millisecond), known(units.Bytes(65536)), known(units.Bytes(375032)), known(units.Bytes(721920))
			e.TCP.RTT, e.RTT, e.TCP.RTTMin = known(8710*time.Microsecond), known(7405*time.Microsecond), known(7405*time.Microsecond)
		}, rule: "B08", at: atSender, help: "tcp.send_buffer_max"},
		{name: "a send buffer that fits, and a congestion window that does as well", rate: 61e6, change: func(e *Evidence) {
			e.TCP.SendBuffer, e.TCP.Cwnd = known(units.Bytes(65536)), known(units.Bytes(66608))
			e.TCP.RTT, e.RTT, e.TCP.RTTMin = known(8710*time.Microsecond), known(7405*time.Microsecond), known(7405*time.Microsecond)
		}, rule: "unknown", without: "B08"},
		{name: "a send buffer that fills a queue on the way", rate: 78.6e6, change: fillsQueue, rule: "B06", at: nowhere, allows: 78.6e6, without: "B08", says: "packets wait on the way all the time, at the least 409 ms"},
		{name: "a receive window that does", rate: 78.6e6, change: after(fillsQueue, func(e *Evidence) {
			e.TCP.SndbufLimited = known(time.Duration(0))
			window(4<<20, 1)(e)
		}), rule: "B06", at: nowhere, without: "B07"},
		{name: "wait in a host without time", rate: 78.6e6, change: after(fillsQueue, func(e *Evidence) {
			e.TCP.RTT, e.TCP.SendBuffer, e.Samples = known(120*time.Millisecond), known(units.Bytes(1179648)), nil
			trips(e, 120, 121, 122)
			e.Sender.moved("cpu_busy_ms/cpu0", 9900, "cpu_busy_ms/cpu1", 9800, "cpu_busy_ms/cpu2", 9900, "cpu_busy_ms/cpu3", 9900)
		}), rule: "B08", at: atSender, without: "B06"},
		{name: "a queue that runs empty at times", rate: 78.6e6, change: after(fillsQueue, func(e *Evidence) { e.Samples[1].Value = 0.08 }), rule: "B08", at: atSender, without: "B06"},
		{name: "a few segments that wait for delayed acknowledgements", rate: 1.6e6, change: func(e *Evidence) {
			e.TCP.SndbufLimited, e.TCP.SendBuffer = known(10*time.Second), known(units.Bytes(8<<10))
			e.TCP.RTT = known(40 * time.Millisecond)
			trips(e, 40, 41, 40, 40)
		}, rule: "B08", at: atSender, without: "B06"},
		{name: "a send buffer that is large enough", rate: 50e6, change: func(e *Evidence) {
			e.TCP.SndbufLimited = known(5 * time.Second)
		}, rule: "unknown", without: "B08"},
		{name: "send buffer of the test itself", rate: 50e6, change: func(e *Evidence) {
			e.TCP.SndbufLimited, e.TCP.SendBuffer, e.Run.Flow.Window = known(5*time.Second), known(units.Bytes(65536)), 32<<10
		}, rule: "B08", at: atSender, help: "window"},
		{name: "receiver reads late", rate: 50e6, change: func(e *Evidence) {
			window(65536, 0.7)(e)
			e.Receiver.Facts.Knobs["tcp.recv_buffer_max"] = known("33554432")
			e.Receiver.moved("tcp_zero_window_announced", 40)
		}, rule: "B21", at: atReceiver, without: "B07"},
		{name: "receiver reads late, and the hypervisor takes a little", rate: 50e6, change: func(e *Evidence) { // a recorded one
			window(65536, 0.5)(e)
			e.Receiver.Facts.Knobs["tcp.recv_buffer_max"] = known("33554432")
			e.Receiver.moved("tcp_zero_window_announced", 9, "cpu_steal_ms", 2400)
		}, rule: "B21", at: atReceiver, without: "B07"},
		{name: "receiver reads late, because the hypervisor has its processors", rate: 50e6, change: func(e *Evidence) {
			window(65536, 0.5)(e)
			e.Receiver.Facts.Knobs["tcp.recv_buffer_max"] = known("33554432")
			e.Receiver.moved("tcp_zero_window_announced", 9, "cpu_steal_ms", 24000)
		}, rule: "B23", at: atReceiver, without: "B21"},
		{name: "sender idle", rate: 50e6, change: func(e *Evidence) { e.TCP.Busy = known(4 * time.Second) }, rule: "B21", at: atSender},
		{name: "sender idle for a moment", rate: 500e6, change: func(e *Evidence) { e.TCP.Busy = known(8500 * time.Millisecond) }, rule: "unknown", without: "B21"},
		{name: "short test", rate: 300e6, change: rises, rule: "B14"},
		{name: "short test, whose slow start ended with a loss", rate: 300e6, change: after(rises, func(e *Evidence) { resent(e, 5000, 1) }), rule: "B14"},
		{name: "a test that ends in slow start, whose intervals are shorter than a round trip", rate: 1.107e6, change: func(e *Evidence) { // a recorded one
			e.Ceiling, e.RTT, e.Window = known(units.BitRate(18.64e6)), known(175*time.Millisecond), 775*time.Millisecond
			e.TCP.Busy, e.TCP.RTT, e.TCP.RTTMin = known(775*time.Millisecond), known(177*time.Millisecond), known(175*time.Millisecond)
			rates(e, 0, 0.85, 0.77, 1.19, 2.24)
		}, rule: "B14"},
		{name: "a test that lasts longer than slow start, and does not rise", rate: 1.107e6, change: func(e *Evidence) {
			e.Ceiling, e.RTT, e.Window = known(units.BitRate(18.64e6)), known(175*time.Millisecond), 5*time.Second
			e.TCP.Busy, e.TCP.RTT, e.TCP.RTTMin = known(5*time.Second), known(177*time.Millisecond), known(175*time.Millisecond)
			rates(e, 1, 1, 0.9, 1, 1.1)
		}, rule: "unknown", without: "B14"},
		{name: "a short test whose window limits", rate: 1.107e6, change: func(e *Evidence) {
			e.Ceiling, e.RTT, e.Window = known(units.BitRate(18.64e6)), known(175*time.Millisecond), 775*time.Millisecond
			e.TCP.Busy, e.TCP.RTT, e.TCP.RTTMin = known(775*time.Millisecond), known(177*time.Millisecond), known(175*time.Millisecond)
			e.TCP.RwndLimited, e.TCP.PeerWindow = known(500*time.Millisecond), known(units.Bytes(26000))
		}, rule: "B07", at: atReceiver, without: "B14"},
		{name: "short test with losses again and again", rate: 30e6, change: func(e *Evidence) {
			e.RTT, e.Window = known(300*time.Millisecond), 5*time.Second
			e.TCP.Busy, e.TCP.RTT, e.TCP.RTTMin, e.TCP.PeerWindow = known(5*time.Second), known(300*time.Millisecond), known(300*time.Millisecond), known(units.Bytes(64<<20))
			resent(e, 5000, 900)
			rates(e, 0.2, 0.5, 1.0, 1.6, 1.7)
		}, rule: "unknown", without: "B14"},
		{name: "a window limits, whatever the seconds do", rate: 50e6, change: func(e *Evidence) {
			window(65536, 0.7)(e)
			rates(e, 0.7, 1.0, 1.3)
		}, rule: "B07", at: atReceiver, without: "B14"},
		{name: "a test that rises and is long enough", rate: 300e6, change: func(e *Evidence) { rates(e, 0.5, 1.0, 1.2) }, rule: "unknown", without: "B14"},
	}
}

// waitsForTimers is a recorded path of 0.7 ms that loses 3.5 % of its packets: CUBIC could
// reach 120 Mbit/s.
func waitsForTimers(e *Evidence) {
	e.Ceiling, e.RTT = known(units.BitRate(299.4e6)), known(684*time.Microsecond)
	e.TCP.RTT, e.TCP.RTTMin = known(1160*time.Microsecond), known(684*time.Microsecond)
	e.TCP.Retransmits, e.TCP.SegmentsOut, e.TCP.Cwnd = known(int64(366)), known(int64(11011)), known(units.Bytes(2896))
	e.Sender.moved("tcp_out_segments", 12362, "tcp_retransmitted", 446, "tcp_recoveries", 377)
	rates(e, 0.4, 1, 1.6, 1, 1)
}

// began is a recorded path of 31 Mbit/s and 240 ms that Reno has hardly begun to fill, with the
// losses, the largest round trip in milliseconds and the rate of its warm-up.
func began(e *Evidence, lost int, trip, rate float64) {
	e.Ceiling, e.RTT = known(units.BitRate(29.47e6)), known(240*time.Millisecond)
	e.TCP.RTT, e.TCP.RTTMin, e.TCP.Congestion = known(244*time.Millisecond), known(240*time.Millisecond), known("reno")
	e.TCP.Retransmits, e.TCP.SegmentsOut, e.TCP.Cwnd = known(int64(1)), known(int64(1977)), known(units.Bytes(131768))
	e.Sender.moved("tcp_out_segments", 4359, "tcp_retransmitted", lost+1, "tcp_recoveries", 2)
	from, to := e.Sender.Host, e.Receiver.Host
	for _, s := range []model.Sample{
		{Host: from, Direction: e.Direction, Metric: model.RTT, Value: trip / 1000, Omitted: true},
		{Host: from, Direction: e.Direction, Metric: model.Cwnd, Value: 172312, Omitted: true},
		{Host: to, Direction: e.Direction, Metric: model.Goodput, Value: rate, Omitted: true},
		{Host: from, Direction: e.Direction, Metric: model.Retransmits, Value: float64(lost), Omitted: true},
		{Host: from, Metric: "tcp_recoveries", Start: 2 * time.Second, Value: 1},
		{Host: from, Direction: e.Direction, Metric: model.Retransmits, Start: 7 * time.Second, Value: 0},
		{Host: from, Direction: e.Direction, Metric: model.Retransmits, Start: 8 * time.Second, Value: 1},
		{Host: from, Metric: "tcp_recoveries", Start: 8 * time.Second, Value: 1},
	} {
		s.Length = time.Second
		e.Samples = append(e.Samples, s)
	}
}

func lossCases() []aCase {
	again := func(segments, events int) func(*Evidence) { return func(e *Evidence) { resent(e, segments, events) } }
	slowly := func(e *Evidence) { // sampled
		began(e, 43, 250.6, 3.5e6)
		for i := range e.Samples {
			e.Samples[i].Length = 3 * time.Second
		}
	}
	ranOut := func(e *Evidence) { e.Sender.moved("tcp_timeouts", 10) }
	return []aCase{
		// 1448 B at 10 ms and a loss of 1e-4 allow 142 Mbit/s (diagnosis.md 2.3).
		{name: "loss", rate: 120e6, change: func(e *Evidence) { resent(e, 10, 10) }, rule: "B10", at: atSender, help: "tcp.congestion_control", allows: 141.9e6},
		{name: "loss is counted in events", rate: 120e6, change: func(e *Evidence) { resent(e, 19, 10) }, rule: "B10", at: atSender, allows: 141.9e6},
		{name: "segments are lost in bursts: a queue that bursts overflow", rate: 20e6, change: func(e *Evidence) { resent(e, 4000, 10) }, rule: "B06", at: nowhere, without: "B10"},
		{name: "so many segments in one event explain nothing", rate: 20e6, change: func(e *Evidence) {
			resent(e, 4000, 10)
			e.TCP.SACK = fact.Unknown[bool]("not counted")
		}, rule: "unknown", without: "B10"},
		{name: "one burst in the window and one before it", rate: 1.397e6, change: fewLost(10, 2), rule: "B06", at: nowhere, without: "B10"},
		{name: "as many losses, and one at a time", rate: 1.397e6, change: fewLost(6, 5), rule: "B10", at: atSender, without: "B06"},
		{name: "lost singly: no burst", rate: 20e6, change: func(e *Evidence) { resent(e, 420, 400) }, rule: "B10", at: atSender, without: "B06"},
		{name: "without SACK a lost segment is mended in each round trip", rate: 5e6, change: withoutSACK(900, 2, 256<<10, 0.8), rule: "B10", at: atSender, help: "tcp.sack", without: "B21"},
		{name: "without SACK all is sent again after a timeout, whatever the congestion control", rate: 12e6, change: func(e *Evidence) { // a recorded one
			e.TCP.SACK, e.TCP.Congestion, e.Window = known(false), known("bbr"), 2537*time.Millisecond
			e.TCP.Busy = known(2537 * time.Millisecond)
			resent(e, 1028, 0)
			e.Sender.moved("tcp_recoveries_without_sack", 2, "tcp_timeouts", 1)
		}, rule: "B10", at: atSender, help: "tcp.sack"},
		{name: "without SACK, in a smaller part of the time that explains all that was lost", rate: 643e6, change: withoutSACK(450, 5, 8<<20, 0.27), rule: "B10", at: atSender, help: "tcp.sack", without: "B21"},
		{name: "and in one that does not", rate: 300e6, change: withoutSACK(450, 5, 8<<20, 0.27), rule: "B21", at: atReceiver, without: "B10"},
		{name: "without SACK and with few losses the program reads late", rate: 5e6, change: withoutSACK(90, 2, 256<<10, 0.8), rule: "B21", at: atReceiver, without: "B10"},
		{name: "and all the same where some of the slowing down proved needless", rate: 2.743e6, change: withoutSACK(900, 4, 3<<20, 0.93, "tcp_undone_early", 3), rule: "B10", at: atSender, help: "tcp.sack", without: "B21"},
		{name: "losses so many that the sender waits for its timer", rate: 24.6e6, change: after(waitsForTimers, ranOut), rule: "B10", at: atSender},
		{name: "as slow without a timer that ran out", rate: 24.6e6, change: waitsForTimers, rule: "unknown", without: "B10"},
		{name: "slower than timers explain", rate: 1.2e6, change: after(waitsForTimers, ranOut), rule: "unknown", without: "B10"},
		{name: "slow start that ended in a burst of losses", rate: 4.531e6, change: func(e *Evidence) { began(e, 43, 250.6, 3.5e6) }, rule: "B06", at: nowhere, without: "B10", says: "43 segments in 1 burst"},
		{name: "one that ended in a loss or two", rate: 4.531e6, change: func(e *Evidence) { began(e, 2, 250.6, 3.5e6) }, rule: "B10", at: atSender, without: "B06"},
		{name: "one that ended in a long queue", rate: 4.531e6, change: func(e *Evidence) { began(e, 43, 480, 3.5e6) }, rule: "B10", at: atSender, without: "B06"},
		{name: "one that overshot by all that the path holds", rate: 4.531e6, change: func(e *Evidence) { began(e, 500, 250.6, 3.5e6) }, rule: "B10", at: atSender, without: "B06"},
		{name: "one that had filled the path before", rate: 4.531e6, change: func(e *Evidence) { began(e, 43, 250.6, 29.3e6) }, rule: "B10", at: atSender, without: "B06"},
		{name: "a beginning whose queue no sample shows", rate: 4.531e6, change: after(slowly, func(e *Evidence) { e.Samples[1].Value *= 3 }), rule: "B10", at: atSender, without: "B06"},
		{name: "loss that explains less than was measured", rate: 400e6, change: func(e *Evidence) { resent(e, 1000, 1000) }, rule: "unknown", without: "B10"},
		{name: "no formula for bbr", rate: 120e6, change: func(e *Evidence) {
			resent(e, 10, 10)
			e.TCP.Congestion = known("bbr")
		}, rule: "unknown", without: "B10"},
		{name: "losses of its own queue are not the path's", rate: 500e6, change: func(e *Evidence) {
			resent(e, 10, 5)
			rates(e, 0.2, 1.85, 0.6, 1.85, 0.5)
		}, rule: "B06", at: nowhere, without: "B10"},
		{name: "a path that is nearly full drops now and then", rate: 865e6, change: func(e *Evidence) { // as one that was recorded
			resent(e, 83, 3)
			rates(e, 1.05, 1.04, 1.04, 0.91, 0.96)
		}, rule: "ceiling", at: atSender, without: "B06"},
		{name: "reordering is no short queue either", rate: 500e6, change: func(e *Evidence) {
			resent(e, 600, 5)
			e.Sender.moved("tcp_undone_by_duplicates", 5)
			rates(e, 0.2, 1.85, 0.6, 1.85, 0.5)
		}, rule: "B11", at: atSender, without: "B06"},
		{name: "paced datagrams get through: a queue that bursts overflow", rate: 120e6, change: after(again(740, 200), ladder(Rung{Sent: 60e6, Received: 60e6, Size: 1448, Got: 10000}, Rung{Sent: 114e6, Received: 114e6, Size: 1448, Got: 19000, Lost: 1})), rule: "B06", at: nowhere, help: "tcp.congestion_control", without: "B10"},
		{name: "paced datagrams are lost as well", rate: 120e6, change: after(again(10, 10), ladder(Rung{Sent: 114e6, Received: 113.9e6, Size: 1448, Got: 190000, Lost: 17})), rule: "B10", at: atSender, without: "B06"},
		{name: "a beginning whose windows were too small to fill the path", rate: 4.531e6, change: slowly, rule: "B06", at: nowhere, without: "B10"},
		{name: "a policer on a path whose round trips are shorter than their resolution", rate: 21.3e6, change: after(again(13700, 5900), ladder(Rung{Sent: 20e6, Received: 20e6, Size: 1448, Got: 9610}), func(e *Evidence) {
			e.RTT, e.TCP.RTTMin, e.TCP.RTT = known(453*time.Microsecond), known(494*time.Microsecond), known(1057*time.Microsecond)
			trips(e, 1.009, 1.06, 1.1)
		}), rule: "B06", at: nowhere, without: "B10"},
		{name: "few paced datagrams, and single losses", rate: 25e6, change: after(again(210, 200), ladder(Rung{Sent: 11e6, Received: 11e6, Size: 1448, Got: 2977})), rule: "B10", at: atSender, without: "B06"},
		{name: "too few paced datagrams to tell", rate: 120e6, change: after(again(10, 10), ladder(Rung{Sent: 114e6, Received: 114e6, Size: 1448, Got: 19000})), rule: "B10", at: atSender, without: "B06"},
		{name: "SACK is off", rate: 120e6, change: func(e *Evidence) {
			resent(e, 10, 0)
			e.Sender.moved("tcp_recoveries_without_sack", 10)
			e.TCP.SACK = known(false)
		}, rule: "B10", at: atSender, help: "tcp.sack"},
		{name: "reordering before loss", rate: 120e6, change: func(e *Evidence) {
			resent(e, 6000, 10)
			e.Sender.moved("tcp_undone_by_duplicates", 9)
			e.Receiver.moved("tcp_out_of_order", 8000)
		}, rule: "B11", at: atSender, without: "B10"},
		{name: "reordering under bbr, which keeps its rate", rate: 120e6, change: func(e *Evidence) {
			resent(e, 300, 140)
			e.TCP.Congestion = known("bbr")
			e.Sender.moved("tcp_undone_by_duplicates", 120)
		}, rule: "B11", at: atSender, beside: true},
		{name: "reordering without SACK", rate: 12e6, change: func(e *Evidence) {
			resent(e, 30000, 0)
			e.Sender.moved("tcp_recoveries_without_sack", 47, "tcp_undone_early", 43, "tcp_reordering_without_sack", 156)
			e.TCP.SACK = known(false)
		}, rule: "B11", at: atSender, help: "tcp.sack"},
		{name: "holes that SACK mends are no reordering", rate: 92.9e6, change: func(e *Evidence) { // a recorded one
			resent(e, 12, 16)
			e.TCP.SegmentsOut = known(int64(20079))
			e.Sender.moved("tcp_out_segments", 28331, "tcp_reordering", 33, "tcp_reordering_seen_late", 7)
			e.TCP.RTT, e.TCP.RTTMin, e.RTT = known(6693*time.Microsecond), known(5*time.Millisecond), known(5*time.Millisecond)
		}, rule: "B10", at: atSender, without: "B11"},
		{name: "a packet or two that wait are no queue", rate: 0.862e6, change: func(e *Evidence) { // a recorded one
			e.Ceiling, e.RTT = known(units.BitRate(3.879e6)), known(52752*time.Microsecond)
			e.TCP.RTT, e.TCP.RTTMin, e.TCP.SegmentsOut = known(68360*time.Microsecond), known(52752*time.Microsecond), known(int64(229))
			e.TCP.Retransmits = known(int64(8))
			e.Sender.moved("tcp_out_segments", 340, "tcp_retransmitted", 14, "tcp_recoveries", 13)
			trips(e, 61.5, 70.3, 62.1, 74.2)
		}, rule: "B10", at: atSender, without: "B06"},
		{name: "a little reordering beside much loss", rate: 120e6, change: func(e *Evidence) {
			resent(e, 10, 10)
			e.Sender.moved("tcp_reordering", 3)
		}, rule: "B10", at: atSender, without: "B11"},
	}
}
