package diagnose

import (
	"strings"
	"testing"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// scarceCases are those of what a host has too little of, and of what its kernel
// says of its interface.
func scarceCases() []aCase {
	marked := func(capable, congested int) func(*Evidence) {
		return func(e *Evidence) {
			e.TCP.ECN = known(true)
			e.Receiver.moved("ecn_capable", capable, "ecn_congested", congested)
		}
	}
	queues := func(streams int, parts ...int) func(*Evidence) {
		return func(e *Evidence) {
			e.Streams = streams
			for i, n := range parts {
				e.Sender.moved("queue_tx_packets/eth0 queue "+string(rune('0'+i)), n)
			}
		}
	}
	asking := func(e *Evidence) {
		e.TCP.ECN = known(false)
		e.Sender.Facts.Knobs["tcp.ecn"], e.Receiver.Facts.Knobs["tcp.ecn"] = known("1"), known("1")
	}
	return []aCase{
		{name: "buffers denied", rate: 300e6, change: func(e *Evidence) {
			e.Receiver.moved("mbuf_denied/clusters of 2 KiB", 40, "mbuf_delayed/clusters of 9 KiB", 3)
		}, rule: "B13", at: atReceiver, help: "mbuf.clusters"},
		{name: "two kinds of buffers", rate: 300e6, change: func(e *Evidence) {
			e.Receiver.moved("mbuf_denied/clusters of 2 KiB", 400, "mbuf_delayed/clusters of one page", 500, "mbuf_delayed/mbufs", 1)
		}, rule: "B13", at: atReceiver, help: "mbuf.jumbo_p", says: "most of them for clusters of one page and clusters of 2 KiB"},
		{name: "jumbo buffers waited for", rate: 300e6, change: func(e *Evidence) { e.Sender.moved("mbuf_delayed/clusters of 9 KiB", 3) }, rule: "B13", at: atSender, help: "mbuf.jumbo9"},
		{name: "the log speaks of buffers", rate: 300e6, change: func(e *Evidence) { e.Receiver.moved("log_buffers_denied", 1) }, rule: "B13", at: atReceiver, help: "mbuf.clusters"},
		{name: "buffers, and a full link", rate: 935e6, change: func(e *Evidence) { e.Receiver.moved("mbuf_delayed/mbufs", 1) }, rule: "ceiling", at: atSender, without: "B13"},
		{name: "no memory for jumbo frames", rate: 300e6, change: func(e *Evidence) {
			e.Receiver.Facts.MTU, e.Sender.Facts.MTU, e.TCP.PathMTU = known(9000), known(9000), known(9000)
			e.Receiver.moved("log_page_allocations", 2)
		}, rule: "B20", at: atReceiver, help: "link.mtu"},
		{name: "the driver got no memory", rate: 300e6, change: func(e *Evidence) {
			e.Sender.Facts.MTU, e.Receiver.Facts.MTU, e.TCP.PathMTU = known(9000), known(9000), known(9000)
			e.Sender.moved("nic_driver/eth0 alloc_rx_buff_failed", 7)
		}, rule: "B20", at: atSender, help: "link.mtu"},
		{name: "no memory, and frames that need little", rate: 300e6, change: func(e *Evidence) { e.Receiver.moved("log_page_allocations", 2) }, rule: "B20", at: atReceiver, help: "link.mtu", beside: true},
		{name: "another counter of the driver", rate: 300e6, change: func(e *Evidence) { e.Receiver.moved("nic_driver/eth0 rx_csum_failed", 7) }, rule: "unknown", without: "B20"},
		{name: "the card hung", rate: 300e6, change: func(e *Evidence) { e.Sender.moved("log_device_resets", 1) }, rule: "B24", at: atSender, help: "nic.offload.tso"},
		{name: "a queue of the card stood still", rate: 300e6, change: func(e *Evidence) { e.Receiver.moved("nic_driver/eth0 tx0_tx_timeouts", 2) }, rule: "B24", at: atReceiver},
		{name: "the log says nothing", rate: 300e6, rule: "unknown", without: "B24"},
		{name: "table of connections drops", rate: 300e6, change: func(e *Evidence) {
			resent(e, 400, 100)
			e.Receiver.moved("track_dropped", 390)
		}, rule: "B26", at: atReceiver, without: "B10"},
		{name: "table of connections is full beside it", rate: 300e6, change: func(e *Evidence) { e.Sender.moved("track_evicted", 900) }, rule: "B26", at: atSender, beside: true},
		{name: "one packet that could not be tracked", rate: 300e6, change: func(e *Evidence) { e.Sender.moved("track_dropped", 1) }, rule: "unknown", without: "B26"},
		{name: "one queue of four", rate: 300e6, change: queues(4, 10, 99000, 300), rule: "B34", at: atSender, beside: true},
		{name: "one queue of four, and its core is full", rate: 300e6, change: func(e *Evidence) {
			queues(4, 10, 99000, 300)(e)
			e.Sender.moved("cpu_busy_ms/cpu2", 9800)
		}, rule: "B34", at: atSender},
		{name: "one connection uses one queue", rate: 300e6, change: queues(1, 0, 99000), rule: "unknown", without: "B34"},
		{name: "queues that share", rate: 300e6, change: queues(4, 20000, 30000, 25000, 24000), rule: "unknown", without: "B34"},
		{name: "ECN refused on the way", rate: 300e6, change: asking, rule: "B35", help: "tcp.ecn", beside: true},
		{name: "ECN that one host does not ask for", rate: 300e6, change: func(e *Evidence) {
			asking(e)
			e.Receiver.Facts.Knobs["tcp.ecn"] = known("2")
		}, rule: "unknown", without: "B35"},
		{name: "marks removed on the way", rate: 300e6, change: marked(12, 0), rule: "B35", beside: true},
		{name: "marks forged on the way", rate: 300e6, change: marked(2000, 97000), rule: "B35"},
		{name: "marks of a queue that stands", rate: 300e6, change: func(e *Evidence) {
			marked(2000, 97000)(e)
			e.TCP.RTT = known(2 * e.RTT.Or(0))
			rates(e, 0.5, 1.5, 0.7, 1.3)
		}, rule: "unknown", without: "B35"},
		{name: "marks as they should be", rate: 300e6, change: marked(99000, 40), rule: "unknown", without: "B35"},
		{name: "receive buffer too large", rate: 500e6, change: func(e *Evidence) {
			tooLarge(e)
			e.Receiver.moved("thread_run_ms", 9900)
		}, rule: "B38", at: atReceiver, help: "tcp.recv_buffer_max", beside: true},
		{name: "a large buffer, and a processor that has time", rate: 500e6, change: tooLarge, rule: "unknown", without: "B38"},
		{name: "a large buffer on a long path", rate: 500e6, change: func(e *Evidence) {
			e.TCP.PeerWindow = known(units.Bytes(32 << 20))
			e.Receiver.moved("thread_run_ms", 9900)
		}, rule: "B16", at: atReceiver, without: "B38"},
	}
}

// tooLarge is a window of 4 MiB on a path of 0.2 ms, which holds 24 KB.
func tooLarge(e *Evidence) {
	short := e.RTT.Or(0) / 50
	e.RTT, e.TCP.RTT, e.TCP.RTTMin = known(short), known(short), known(short)
	e.Receiver.Facts.Knobs = map[model.KnobID]fact.Of[string]{}
}

// TestCutOff: one host's counters are enough to say why contact was lost.
func TestCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		counters []any
		want     string
	}{
		"link":    {[]any{"nic_carrier_down/eth0", 1}, "the link was lost once during the test"},
		"card":    {[]any{"log_device_resets", 2}, "the kernel said twice that the card hung or was reset"},
		"buffers": {[]any{"mbuf_denied/clusters of 2 KiB", 40}, "40 requests for buffers were refused and 0 requests had to wait, most of them for clusters of 2 KiB"},
		"table":   {[]any{"track_dropped", 5}, "the table is full: 5 packets were dropped, and 0 connections were forgotten to make room"},
		"traffic": {[]any{"tcp_retransmitted", 500, "nic_rx_packets/eth0", 9}, ""},
	} {
		got := strings.Join(CutOff(model.EndReport{Host: model.Near, Counters: counted(append(everything(), looked("log", "mbuf", "track")...), c.counters...)}), "; ")
		must.Equal(t, got, c.want, "%s", name)
	}
	got := CutOff(model.EndReport{Host: model.Near})
	must.True(t, got == nil, "of a host that counted nothing: %q", got)
}
