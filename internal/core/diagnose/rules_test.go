package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

func known[T any](v T) fact.Of[T] { return fact.Known(v, "test") }

// busy is a sender that had data all the time of a window of 10 s.
func busy() model.TCPSummary {
	return model.TCPSummary{
		MSS: known(1448), SendScale: known(10), Busy: known(10 * time.Second), SACK: known(true), Timestamps: known(true),
		RwndLimited: known(time.Duration(0)), SndbufLimited: known(time.Duration(0)), Congestion: known("cubic"), PathMTU: known(1500),
		RTT: known(10 * time.Millisecond), RTTMin: known(10 * time.Millisecond),
		Cwnd: known(units.Bytes(1 << 20)), PeerWindow: known(units.Bytes(4 << 20)), SendBuffer: known(units.Bytes(4 << 20)),
		Retransmits: known(int64(0)), SegmentsOut: known(int64(100000)),
	}
}

// evidence is that of a rate over a link of 1 Gbit/s and 10 ms, both ends of which
// tell their counters, none of which moved, changed by the case.
func evidence(d model.Direction, rate units.BitRate, change func(*Evidence)) Evidence {
	e := Evidence{
		Direction: d, Goodput: rate, Window: 10 * time.Second, TCP: busy(), Streams: 1,
		Ceiling: known(units.BitRate(941.48e6)), RTT: known(10 * time.Millisecond),
		Run:    &model.Run{State: model.RunValid, Flow: model.Flow{Direction: d, Duration: 10 * time.Second}},
		Sender: quiet(d.Sender()), Receiver: quiet(d.Receiver()),
	}
	e.Sender.Flow = &model.FlowReport{Direction: d, Role: model.Sender, Bytes: 100000 * 1448}
	e.Receiver.Flow = &model.FlowReport{Direction: d, Role: model.Receiver, Bytes: 100000 * 1448, Window: e.Window}
	if change != nil {
		change(&e)
	}
	return e
}

// quiet is an end with four cores that had next to nothing to do.
func quiet(h model.Host) End {
	r := &model.EndReport{Host: h, Waiting: "blocking thread"}
	e := End{Host: h, Facts: model.HostFacts{
		Host: h, Name: string(h), OS: "linux", CPUs: 4, Kernel: known("6.18.0"), MTU: known(1500), LinkRate: known(units.BitRate(1e9)), Qdisc: known("fq_codel"),
		Knobs: map[model.KnobID]fact.Of[string]{"tcp.window_scaling": known("1"), "tcp.recv_buffer_max": known("131072"), "tcp.recv_autotune": known("1")},
		NICs:  []model.NIC{{Name: "eth0", Kind: known("device")}},
	}, Report: r, CPU: known(0.1)}
	e.moved("thread_run_ms", 500, "thread_wait_ms", 20)
	for i := range 4 {
		e.Counters.parts["cpu_busy_ms"][fmt.Sprint("cpu", i)] = 900
	}
	return e
}

// moved says that counters moved, and that all groups were read.
func (e *End) moved(pairs ...any) {
	if e.Counters.parts == nil {
		e.Counters = Counters{parts: map[string]map[string]int64{"cpu_busy_ms": {}}, groups: map[string]int64{}}
		for _, g := range []string{"cpu", "softnet", "ip", "udp", "tcp", "nic", "qdisc", "driver", "thread", "cgroup", "queue", "ecn", "track", "mbuf", "log"} {
			e.Counters.groups[g] = 4
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		name, of, _ := strings.Cut(pairs[i].(string), "/")
		if e.Counters.parts[name] == nil {
			e.Counters.parts[name] = map[string]int64{}
		}
		e.Counters.parts[name][of] = int64(pairs[i+1].(int))
	}
}

// rates are the goodputs of one second each, as shares of the run's own.
func rates(e *Evidence, shares ...float64) {
	for i, s := range shares {
		e.Samples = append(e.Samples, model.Sample{
			Host: e.Receiver.Host, Direction: e.Direction, Metric: model.Goodput, Start: time.Duration(i) * time.Second, Length: time.Second, Value: s * float64(e.Goodput),
		})
	}
}

func nic(e *End, change func(*model.NIC)) { change(&e.Facts.NICs[0]) }

// The changes that several cases have.
func window(n units.Bytes, share float64) func(*Evidence) {
	return func(e *Evidence) {
		e.TCP.PeerWindow, e.TCP.RwndLimited = known(n), known(time.Duration(share*float64(10*time.Second)))
	}
}

func resent(e *Evidence, segments, events int) {
	e.TCP.Retransmits = known(int64(segments))
	e.Sender.moved("tcp_retransmitted", segments, "tcp_out_segments", 100000-segments, "tcp_recoveries", events)
}

// The ends that a finding may belong to.
const (
	atSender   = "sender"
	atReceiver = "receiver"
	nowhere    = ""
)

// aCase is evidence, and the first finding that it must have.
type aCase struct {
	name    string
	rate    units.BitRate
	change  func(*Evidence)
	rule    string
	at      string
	help    model.KnobID  // the first setting, "" for none
	allows  units.BitRate // 0: not looked at
	beside  bool          // the rule's finding is not the first, but among the others
	without string        // a rule that must not be among the findings
}

func cases() []aCase {
	return slices.Concat(fullCases(), windowCases(), lossCases(), hostCases(), pathCases(), linkCases(), scarceCases())
}

func fullCases() []aCase {
	return []aCase{
		{name: "a full link wins over everything", rate: 935e6, change: window(65536, 0.9), rule: "ceiling", at: atSender, allows: 941.48e6},
		{name: "nearly full", rate: 880e6, rule: "ceiling", at: atSender},
		{name: "nothing says anything", rate: 400e6, rule: "unknown"},
		{name: "more than there can be", rate: 1200e6, change: func(e *Evidence) {
			e.Path = limits.Ceiling{Rate: known(units.BitRate(941.48e6))}
			e.Ceiling = e.Path.Against(e.Goodput)
		}, rule: "B32", without: "ceiling"},
	}
}

func windowCases() []aCase {
	scalingOff := func(sender, receiver string) func(*Evidence) {
		return func(e *Evidence) {
			window(65535, 0.7)(e)
			e.TCP.SendScale = fact.Unknown[int]("not negotiated")
			e.Sender.Facts.Knobs["tcp.window_scaling"], e.Receiver.Facts.Knobs["tcp.window_scaling"] = known(sender), known(receiver)
		}
	}
	return []aCase{
		{name: "receive window", rate: 50e6, change: window(65536, 0.7), rule: "B07", at: atReceiver, help: "tcp.recv_buffer_max", allows: 52.4288e6},
		{name: "a share of time below the threshold", rate: 50e6, change: window(65536, 0.19), rule: "unknown", without: "B07"},
		{name: "a bound below what was measured refutes its rule", rate: 100e6, change: window(65536, 0.7), rule: "unknown", without: "B07"},
		{name: "a window far above what was reached", rate: 50e6, change: window(1<<20, 0.7), rule: "unknown", without: "B07"},
		{name: "without the kernel's times the window has to explain the rate", rate: 50e6, change: func(e *Evidence) {
			window(65536, 0)(e)
			e.TCP.RwndLimited = fact.Unknown[time.Duration]("freebsd")
		}, rule: "B07", at: atReceiver},
		{name: "and where it does not, nothing is said", rate: 40e6, change: func(e *Evidence) {
			window(65536, 0)(e)
			e.TCP.RwndLimited = fact.Unknown[time.Duration]("freebsd")
		}, rule: "unknown"},
		{name: "window of the test itself", rate: 19e6, change: func(e *Evidence) {
			window(24<<10, 0.7)(e)
			e.Run.Flow.Window, e.TCP.SendScale = 24<<10, known(0)
		}, rule: "B07", at: atReceiver, help: "window"},
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
		{name: "sender idle", rate: 50e6, change: func(e *Evidence) { e.TCP.Busy = known(4 * time.Second) }, rule: "B21", at: atSender},
		{name: "sender idle for a moment", rate: 500e6, change: func(e *Evidence) { e.TCP.Busy = known(8500 * time.Millisecond) }, rule: "unknown", without: "B21"},
		{name: "short test", rate: 300e6, change: func(e *Evidence) {
			e.RTT, e.Window = known(300*time.Millisecond), 5*time.Second
			e.TCP.Busy, e.TCP.RTT, e.TCP.RTTMin, e.TCP.PeerWindow = known(5*time.Second), known(300*time.Millisecond), known(300*time.Millisecond), known(units.Bytes(64<<20))
			rates(e, 0.2, 0.5, 1.0, 1.6, 1.7)
		}, rule: "B14"},
		{name: "short test, whose slow start ended with a loss", rate: 300e6, change: func(e *Evidence) {
			e.RTT, e.Window = known(300*time.Millisecond), 5*time.Second
			e.TCP.Busy, e.TCP.RTT, e.TCP.RTTMin, e.TCP.PeerWindow = known(5*time.Second), known(300*time.Millisecond), known(300*time.Millisecond), known(units.Bytes(64<<20))
			resent(e, 5000, 1)
			rates(e, 0.2, 0.5, 1.0, 1.6, 1.7)
		}, rule: "B14"},
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

func lossCases() []aCase {
	return []aCase{
		// 1448 B at 10 ms and a loss of 1e-4 allow 142 Mbit/s (diagnosis.md 2.3).
		{name: "loss", rate: 120e6, change: func(e *Evidence) { resent(e, 10, 10) }, rule: "B10", at: atSender, help: "tcp.congestion_control", allows: 141.9e6},
		{name: "loss is counted in events", rate: 120e6, change: func(e *Evidence) { resent(e, 400, 10) }, rule: "B10", at: atSender, allows: 141.9e6},
		{name: "so many segments in one event explain nothing", rate: 20e6, change: func(e *Evidence) { resent(e, 4000, 10) }, rule: "unknown", without: "B10"},
		{name: "loss that explains less than was measured", rate: 400e6, change: func(e *Evidence) { resent(e, 1000, 1000) }, rule: "unknown", without: "B10"},
		{name: "no formula for bbr", rate: 120e6, change: func(e *Evidence) {
			resent(e, 10, 10)
			e.TCP.Congestion = known("bbr")
		}, rule: "unknown", without: "B10"},
		{name: "losses of its own queue are not the path's", rate: 500e6, change: func(e *Evidence) {
			resent(e, 10, 5)
			rates(e, 0.2, 1.85, 0.6, 1.85, 0.5)
		}, rule: "B06", at: nowhere, without: "B10"},
		{name: "reordering is no short queue either", rate: 500e6, change: func(e *Evidence) {
			resent(e, 600, 5)
			e.Sender.moved("tcp_undone_by_duplicates", 5)
			rates(e, 0.2, 1.85, 0.6, 1.85, 0.5)
		}, rule: "B11", at: atSender, without: "B06"},
		{name: "paced datagrams get through: a queue that bursts overflow", rate: 120e6, change: func(e *Evidence) {
			resent(e, 740, 200)
			e.Beside.Ladder = []Rung{{Sent: 60e6, Received: 60e6, Size: 1448, Got: 10000}, {Sent: 114e6, Received: 114e6, Size: 1448, Got: 19000, Lost: 1}}
		}, rule: "B06", at: nowhere, help: "tcp.congestion_control", without: "B10"},
		{name: "paced datagrams are lost as well", rate: 120e6, change: func(e *Evidence) {
			resent(e, 10, 10)
			e.Beside.Ladder = []Rung{{Sent: 114e6, Received: 113.9e6, Size: 1448, Got: 190000, Lost: 17}}
		}, rule: "B10", at: atSender, without: "B06"},
		{name: "too few paced datagrams to tell", rate: 120e6, change: func(e *Evidence) {
			resent(e, 10, 10)
			e.Beside.Ladder = []Rung{{Sent: 114e6, Received: 114e6, Size: 1448, Got: 19000}}
		}, rule: "B10", at: atSender, without: "B06"},
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
		{name: "reordering without SACK", rate: 12e6, change: func(e *Evidence) {
			resent(e, 30000, 0)
			e.Sender.moved("tcp_recoveries_without_sack", 47, "tcp_undone_early", 43, "tcp_reordering_without_sack", 156)
			e.TCP.SACK = known(false)
		}, rule: "B11", at: atSender, help: "tcp.sack"},
		{name: "a little reordering beside much loss", rate: 120e6, change: func(e *Evidence) {
			resent(e, 10, 10)
			e.Sender.moved("tcp_reordering", 3)
		}, rule: "B10", at: atSender, without: "B11"},
	}
}

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
		{name: "a little stolen time", rate: 500e6, change: func(e *Evidence) { e.Receiver.moved("cpu_steal_ms", 1000) }, rule: "unknown", without: "B23"},
		{name: "receive ring", rate: 120e6, change: func(e *Evidence) {
			resent(e, 400, 100)
			e.Receiver.moved("nic_rx_missed", 380, "cpu_busy_ms/cpu1", 9000)
		}, rule: "B17", at: atReceiver, help: "nic.ring.rx", without: "B10"},
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
		{name: "disk", rate: 935e6, change: func(e *Evidence) { e.Beside.File = known(units.BitRate(200e6)) }, rule: "B22", beside: true},
		{name: "emulated card", rate: 300e6, change: func(e *Evidence) {
			e.Receiver.Facts.Machine = &model.Machine{Virtual: known("kvm")}
			nic(&e.Receiver, func(n *model.NIC) { n.Driver = known("e1000") })
		}, rule: "B31", at: atReceiver},
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
		{name: "and the size is known", change: func(e *Evidence) {
			dead(false)(e)
			e.Beside.Arrives, e.Beside.TooBigTold = known(1300), known(false)
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
		{name: "a queueing discipline without a rate", rate: 100e6, change: func(e *Evidence) {
			e.Sender.moved("qdisc_overlimits/eth0", 9000)
		}, rule: "unknown", without: "B06"},
		{name: "both directions share a bus", rate: 500e6, change: func(e *Evidence) {
			e.Other, e.Beside.Together, e.Beside.TogetherBack = known(units.BitRate(505e6)), known(units.BitRate(260e6)), known(units.BitRate(250e6))
		}, rule: "B18"},
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
		{name: "half duplex at both", rate: 935e6, change: func(e *Evidence) {
			nic(&e.Sender, func(n *model.NIC) { n.Media.Duplex = known("half") })
			nic(&e.Receiver, func(n *model.NIC) { n.Media.Duplex = known("half") })
		}, rule: "B03", beside: true},
		{name: "broken frames", rate: 100e6, change: func(e *Evidence) { e.Receiver.moved("nic_rx_crc_errors", 40, "nic_rx_packets", 100000) }, rule: "B04", at: atReceiver},
		{name: "one broken frame of many", rate: 100e6, change: func(e *Evidence) { e.Receiver.moved("nic_rx_crc_errors", 1, "nic_rx_packets", 100000) }, rule: "unknown", without: "B04"},
		{name: "link that goes down", rate: 100e6, change: func(e *Evidence) { e.Sender.moved("nic_tx_carrier_errors", 2) }, rule: "B25", at: atSender},
		{name: "pause frames", rate: 100e6, change: func(e *Evidence) { e.Sender.moved("nic_driver/eth0 rx_pause_frames", 250) }, rule: "B05", at: atReceiver, help: "nic.pause.rx"},
		{name: "a few pause frames", rate: 100e6, change: func(e *Evidence) { e.Sender.moved("nic_driver/eth0 rx_pause_frames", 20) }, rule: "unknown", without: "B05"},
		{name: "MTU of the ends differs", rate: 935e6, change: func(e *Evidence) { e.Sender.Facts.MTU = known(9000) }, rule: "M1", at: atReceiver, help: "link.mtu", beside: true},
		{name: "path with smaller packets", rate: 935e6, change: func(e *Evidence) { e.TCP.PathMTU = known(1420) }, rule: "M8", beside: true},
	}
}

// TestRules: each rule fires on its evidence and is silent on the nearest evidence
// that does not show it, in both directions, and blames the right end.
func TestRules(t *testing.T) {
	fired := map[string]bool{}
	for _, c := range cases() {
		for _, d := range []model.Direction{model.To, model.From} {
			t.Run(c.name+"/"+string(d), func(t *testing.T) {
				got := Find(evidence(d, c.rate, c.change))
				check(t, d, c, got)
				for _, f := range got {
					fired[f.Rule] = true
				}
			})
		}
	}
	for _, r := range Rules() {
		if r.look != nil && !fired[r.ID] {
			t.Errorf("no case fires %s", r.ID)
		}
	}
}

func check(t *testing.T, d model.Direction, c aCase, got []model.Finding) {
	t.Helper()
	if len(got) == 0 {
		t.Fatal("no answer")
	}
	f := got[0]
	if c.beside {
		i := slices.IndexFunc(got, func(f model.Finding) bool { return f.Rule == c.rule })
		if i < 1 || got[i].Kind != model.FindingBeside {
			t.Fatalf("%s is not beside the first: %s", c.rule, rulesOf(got))
		}
		f = got[i]
	}
	at := map[string]model.Host{atSender: d.Sender(), atReceiver: d.Receiver()}[c.at]
	if f.Rule != c.rule || f.Host != at {
		t.Fatalf("found %s of %q, want %s of %q: %s", f.Rule, f.Host, c.rule, at, f.Evidence)
	}
	if v, ok := f.Implied.Get(); c.allows > 0 && (!ok || math.Abs(float64(v/c.allows)-1) > 0.005) {
		t.Errorf("implied %v, want %v", v, c.allows)
	}
	if c.help != "" && (len(f.Knobs) == 0 || f.Knobs[0] != c.help) {
		t.Errorf("knobs %v, want %s first", f.Knobs, c.help)
	}
	for i, f := range got {
		if f.Rule == c.without {
			t.Errorf("%s was found: %s", c.without, f.Evidence)
		}
		if f.Evidence == "" || !(f.Confidence > 0 && f.Confidence < 1) || len(f.Proof) == 0 || f.Direction != d {
			t.Errorf("%+v is no whole finding", f)
		}
		if first := f.Kind != model.FindingBeside; first != (i == 0) {
			t.Errorf("%d: %s is of kind %q", i, f.Rule, f.Kind)
		}
		if text := Sentence(f, func(h model.Host) string { return string(h) }); strings.Contains(text, "%!") || strings.Contains(text, "  ") {
			t.Errorf("sentence %q", text)
		}
	}
}

func rulesOf(fs []model.Finding) string {
	var out []string
	for _, f := range fs {
		out = append(out, f.Rule)
	}
	return strings.Join(out, " ")
}

// TestUnknownStaysUnknown: without a run nothing is said, and without what the
// sender's kernel tells nothing is blamed.
func TestUnknownStaysUnknown(t *testing.T) {
	if got := Find(Evidence{Direction: model.To, Goodput: 5e6, Streams: 1}); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	for _, d := range []model.Direction{model.To, model.From} {
		got := Find(evidence(d, 50e6, func(e *Evidence) {
			e.TCP, e.Sender.Counters, e.Receiver.Counters = model.TCPSummary{}, Counters{}, Counters{}
		}))
		if len(got) != 1 || got[0].Rule != "unknown" || len(got[0].RuledOut) > 0 || len(got[0].Missing) < 2 {
			t.Errorf("%+v", got)
		}
	}
}

// TestRankedByWhatTheyExplain: of two limits the one that leaves the smaller part of
// the gap comes first, whatever the order of the list; the other contributes.
func TestRankedByWhatTheyExplain(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From} {
		e := evidence(d, 50e6, func(e *Evidence) {
			window(65536, 0.6)(e)
			e.Sender.moved("cpu_steal_ms", 4000) // a tenth of the processors' time: a tenth of the rate
		})
		got := Find(e)
		if len(got) < 1 || got[0].Rule != "B07" || got[0].Explains.Or(0) < 0.9 {
			t.Errorf("%s: %s, %+v", d, rulesOf(got), got[0].Explains)
		}
		// 400 of 941 Mbit/s: a window that would allow 800 explains a quarter of the
		// gap, an idle half of the time nearly all of it.
		e = evidence(d, 400e6, func(e *Evidence) {
			window(1000000, 0.3)(e)
			e.TCP.Busy, e.TCP.RwndLimited = known(5*time.Second), known(2*time.Second)
		})
		got = Find(e)
		if len(got) != 2 || got[0].Rule != "B21" || got[1].Rule != "B07" || got[1].Kind != model.FindingBeside || got[0].Explains.Or(0) < 0.7 || got[1].Explains.Or(1) > 0.3 {
			t.Errorf("%s: %s: %v, %v", d, rulesOf(got), got[0].Explains, got[1].Explains)
		}
	}
}

// TestNotFoundSaysWhatWasRuledOut: silence is an answer of its own.
func TestNotFoundSaysWhatWasRuledOut(t *testing.T) {
	got := Find(evidence(model.To, 400e6, nil))
	want := "limit not found; ruled out: windows, loss, reordering, CPU of both ends, the sending application (42.5 % of 941.5 Mbit/s were reached)"
	if text := Sentence(got[0], nil); text != want {
		t.Errorf("%q, want %q", text, want)
	}
	got = Find(evidence(model.To, 400e6, func(e *Evidence) { e.Receiver.Counters = Counters{} }))
	if !slices.Contains(got[0].RuledOut, "CPU of the sender") || slices.Contains(got[0].RuledOut, "CPU of both ends") || len(got[0].Missing) != 1 {
		t.Errorf("%+v", got[0])
	}
}

// TestCleanPathIsNeverBlamed: a path at its ceiling yields one answer and nothing
// beside it, at any rate and round trip, with the queue of one round trip that a
// sender needs.
func TestCleanPathIsNeverBlamed(t *testing.T) {
	for _, rate := range []units.BitRate{1e6, 10e6, 100e6, 1e9} {
		for _, rtt := range []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond} {
			for _, cc := range []string{"cubic", "bbr"} {
				got := Find(evidence(model.To, rate*0.93, func(e *Evidence) {
					e.Ceiling, e.RTT = known(rate*0.9415), known(rtt)
					e.TCP.Congestion, e.TCP.RTTMin, e.TCP.RTT = known(cc), known(rtt), known(2*rtt)
					rates(e, 1, 1, 1, 1)
					resent(e, 30, 3)
					e.Receiver.moved("thread_wait_ms", 5000)
				}))
				if len(got) != 1 || got[0].Kind != model.FindingFull {
					t.Errorf("%v at %v with %s: %s", rate, rtt, cc, rulesOf(got))
				}
			}
		}
	}
}

// A window that would allow far more than was reached is not what limits.
func TestAmpleWindowIsNotBlamed(t *testing.T) {
	e := evidence(model.To, 31e9, func(e *Evidence) {
		e.Ceiling, e.RTT = fact.Unknown[units.BitRate]("a link without a rate"), known(8*time.Microsecond)
		e.TCP.RwndLimited, e.TCP.PeerWindow, e.TCP.RTT = known(4*time.Second), known(units.Bytes(6<<20)), known(8*time.Microsecond)
		e.Receiver.Facts.Knobs = nil
	})
	if got := Find(e); strings.Contains(rulesOf(got), "B07") {
		t.Errorf("blamed: %+v", got)
	}
	e.Goodput = 4e12
	if got := Find(e); got[0].Rule != "B07" {
		t.Errorf("a window that is used up is not named: %+v", got)
	}
}

// A path that is full says what fills: the link, or the bus that an interface
// hangs on, which names its host itself.
func TestWhatIsFull(t *testing.T) {
	e := evidence(model.To, 470e6, func(e *Evidence) {
		e.Ceiling = known(units.BitRate(478e6))
		e.Path.Limits = []limits.Limit{{Name: "bus of nas", Rate: 478e6}, {Name: "link", Rate: 941.48e6}}
	})
	if f := Find(e); f[0].Rule != "ceiling" || f[0].Limit != "bus of nas" || f[0].Host != "" {
		t.Errorf("%+v", f)
	}
	e.Path.Limits[0].Rate, e.Goodput, e.Ceiling = 8e9, 935e6, known(units.BitRate(941.48e6))
	if f := Find(e); len(f) != 1 || f[0].Limit != "link" || f[0].Host != model.Near {
		t.Errorf("%+v", f)
	}
}
