package diagnose

import (
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// bbr has the sender of 941 Mbit/s and 10 ms use bbr, which takes the path for that rate,
// sends so many of 100000 segments again and sees that round trip.
func bbr(rate units.BitRate, again int, millis float64) func(*Evidence) {
	return func(e *Evidence) {
		resent(e, again, again/2)
		e.TCP.Congestion, e.TCP.RTT = known("bbr"), known(seconds(millis/1000))
		e.TCP.BBR = &model.BBRSummary{Rate: known(rate), RTTMin: known(10 * time.Millisecond), Steady: known(0.7)}
	}
}

// after is one change after another.
func after(changes ...func(*Evidence)) func(*Evidence) {
	return func(e *Evidence) {
		for _, c := range changes {
			c(e)
		}
	}
}

// flown is a path of 100 Mbit/s and 80 ms, which holds 650 segments: the window at the end
// of each second, the first of which is warm-up, and what was sent again in it. The queue
// held half a round trip once.
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
	later := func(most int64) func(*Evidence) {
		return func(e *Evidence) { e.TCP.BBR.InFlight = known(most) }
	}
	paced := func(lost int64) func(*Evidence) {
		return func(e *Evidence) {
			e.Beside.Ladder = []Rung{{Sent: 150e6, Received: 150e6, Size: 1448, Got: 10000 - lost, Lost: lost}}
		}
	}
	lost := []float64{1306, 3, 0, 1, 0, 1} // a recorded one
	return []aCase{
		{name: "bbr at a loss that it hardly bears", rate: 500e6, change: bbr(600e6, 15000, 10.2), rule: "B10", at: atSender, says: "of which 1.06 times its rate arrive: it hardly", misses: "with any rate", without: "B06"},
		{name: "bbr at a loss that it does not bear", rate: 50e6, change: bbr(60e6, 25000, 10.2), rule: "B10", at: atSender, says: "of which 0.94 times its rate arrive: each try"},
		{name: "and the receiver's window is full of what came behind", rate: 300e6, change: after(bbr(400e6, 15000, 10.2), window, fills), rule: "B10", at: atSender, without: "B21"},
		{name: "bbr fills the path and a tenth is lost", rate: 800e6, change: bbr(930e6, 10000, 11.5), rule: "B10", at: atSender, says: "bbr fills the path as it sees it (930 Mbit/s), and 10 %", without: "B06"},
		{name: "a tenth that is lost does not explain half", rate: 400e6, change: bbr(930e6, 10000, 10.2), rule: "unknown", without: "B10"},
		{name: "datagrams get through where bbr loses many: a policer", rate: 390e6, change: after(bbr(400e6, 15000, 10.2), level, paced(0)), rule: "B06", at: nowhere, without: "B10"},
		{name: "datagrams are lost as well", rate: 390e6, change: after(bbr(400e6, 15000, 10.2), level, paced(1500)), rule: "B10", at: atSender, without: "B06"},
		{name: "bbr finds a lower rate, and a queue", rate: 390e6, change: after(bbr(400e6, 10, 12), level), rule: "B06", at: nowhere, says: "bbr finds 400 Mbit/s on the way, and packets wait there (12 ms instead of 10 ms)"},
		{name: "bbr finds a lower rate, and losses without a queue", rate: 390e6, change: after(bbr(400e6, 4000, 10.2), level), rule: "B06", at: nowhere, says: "4 % of the segments are cut away without ever waiting", without: "B10"},
		{name: "bbr finds a lower rate, and nothing else", rate: 390e6, change: after(bbr(400e6, 10, 10.2), level), rule: "unknown", without: "B06"},
		{name: "bbr finds twice what arrives", rate: 190e6, change: after(bbr(400e6, 4000, 12), level), rule: "unknown", without: "B06"},
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
