package diagnose

import (
	"math"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// TestPlaceOf: a queue has a place where the probes wait about as long as the packets of the
// load, and longer than a few of them take.
func TestPlaceOf(t *testing.T) {
	t.Parallel()
	times := func(base, wait time.Duration) (out []time.Duration) {
		for range 10 {
			out = append(out, base+wait)
		}
		return out
	}
	for name, c := range map[string]struct {
		wait, rtt time.Duration // of the probes; of the load, 0 is not known
		rate      float64
		want      model.PlaceKind
	}{
		"a queue":                        {10 * time.Millisecond, 14 * time.Millisecond, 50e6, model.PlaceLink},
		"a queue, round trip not known":  {10 * time.Millisecond, 0, 50e6, model.PlaceLink},
		"the load waits much longer":     {10 * time.Millisecond, 32 * time.Millisecond, 50e6, model.PlaceUnknown},
		"the probes wait for one packet": {2 * time.Millisecond, 5 * time.Millisecond, 7e6, model.PlaceUnknown},
		"nothing waits":                  {0, 32 * time.Millisecond, 50e6, model.PlaceNoQueue},
	} {
		const least = 4 * time.Millisecond
		tcp := &model.TCPSummary{MSS: fact.Known(1448, "test")}
		if c.rtt > 0 {
			tcp.RTT, tcp.RTTMin = fact.Known(c.rtt, "test"), fact.Known(least, "test")
		}
		var idle, loaded hist.Recorder
		idle.Add(least, 10)
		loaded.Add(least+c.wait, 10)
		run := model.Run{
			Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: c.rate}},
			Ends: []model.EndReport{{
				Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, TCP: tcp}},
				Latencies: []model.Latency{{Name: "idle udp", Direction: model.To, Times: idle.Histogram()}, {Name: "loaded udp", Direction: model.To, Times: loaded.Histogram()}},
				Trace: &model.Trace{Direction: model.To, Hops: []model.TraceHop{
					{TTL: 1, Address: "10.99.0.2", Idle: times(time.Millisecond, 0), Loaded: times(time.Millisecond, 0)},
					{TTL: 2, Address: "10.99.1.2", Arrived: true, Idle: times(least, 0), Loaded: times(least, c.wait)},
				}},
			}},
		}
		p := PlaceOf(run, model.To)
		must.Equal(t, p.Kind, c.want, "%s: %+v", name, p)
	}
}

// loadedRun is a session of one run over 20 ms and 20 Mbit/s, with the latency of its messages,
// TCP's round trip and its window.
func loadedRun(latency float64, rtt time.Duration, window units.Bytes) *model.Session {
	tcp := &model.TCPSummary{RTT: fact.Known(rtt, "TCP_INFO"), RTTMin: fact.Known(20*time.Millisecond, "TCP_INFO"), PeerWindow: fact.Known(window, "TCP_INFO")}
	return &model.Session{
		Kind: model.KindTune, WireRate: fact.Known(units.BitRate(20e6), "test"), Plan: model.Plan{Baseline: "current"},
		Hosts: []model.HostFacts{{Host: model.Near, MTU: fact.Known(1500, "test")}, {Host: model.Far, MTU: fact.Known(1500, "test")}},
		Runs: []model.Run{{
			Number: 1, Setting: "current", State: model.RunValid, Flow: model.Flow{Direction: model.To, Streams: 1},
			Values: []model.Value{
				{Metric: model.Goodput, Direction: model.To, Value: 18e6}, {Metric: model.LatencyP50, Direction: model.To, Value: latency},
				{Metric: model.CPUPerGbitFar, Direction: model.To, Value: 0.42},
			},
			Ends: []model.EndReport{{Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, Window: time.Second, TCP: tcp}}}, {Host: model.Far}},
		}},
	}
}

// starvedAt returns s with a thread of that end that worked or waited for a processor all the
// time.
func starvedAt(s *model.Session, end int) *model.Session {
	s.Runs[0].Ends[end].Counters = []model.Counter{{Name: "counters_read", Of: "thread", Value: 2}, {Name: "thread_run_ms", Value: 500}, {Name: "thread_wait_ms", Value: 480}}
	return s
}

// TestWaiting: the parts of the latency under load have their numbers, or the text states that
// they are unknown.
func TestWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		session *model.Session
		share   float64
		want    []string
	}{
		"a deep queue": {loadedRun(0.4, 390*time.Millisecond, 2<<20), 0.05,
			[]string{"a message takes 400 ms under load and 20 ms idle", "wait in a queue on the way", "lets 2 MiB be under way, and the path needs"}},
		"a queue that TCP does not see": {loadedRun(0.4, 25*time.Millisecond, 64<<10), 0.05, []string{"where it waits is not seen"}},
		"a busy processor and a deep queue": {starvedAt(loadedRun(0.4, 390*time.Millisecond, 64<<10), 1), 0.05,
			[]string{"under load and 20 ms idle; packets wait in a queue on the way, TCP's as well; the processor of the receiver is busy"}},
		"a busy processor alone": {starvedAt(loadedRun(0.4, 25*time.Millisecond, 64<<10), 0), 0.05, []string{"under load and 20 ms idle; the processor of the sender is busy"}},
		"nothing":                {loadedRun(0.021, 21*time.Millisecond, 2<<20), 0.952, []string{"nothing waits: a message takes 21 ms"}},
		"no probes":              {loadedRun(0, 0, 0), math.NaN(), []string{""}},
	} {
		share, text := Waiting(c.session, model.To)
		v, known := share.Get()
		must.True(t, known != math.IsNaN(c.share) && (!known || math.Abs(v-c.share) <= 0.001), "%s: share %v %s", name, v, share.Reason())
		for _, want := range c.want {
			must.Contain(t, text, want, "%s", name)
		}
		must.True(t, (!strings.HasPrefix(name, "a busy processor") || !strings.Contains(text, "not seen")) &&
			(name != "a busy processor alone" || !strings.Contains(text, "queue")), "%s: %q names what it is not", name, text)
	}
	_, text := Waiting(loadedRun(0.021, 0, 0), model.From)
	must.True(t, text == "", "a direction without a run: %q", text)
	must.Equal(t, Work(loadedRun(0.4, 0, 0), model.To, model.Far), "each Gbit costs far 420 ms of processor time, with an MTU of 1500")
	must.Equal(t, Work(loadedRun(0.4, 0, 0), model.To, model.Near), "")
}

// scarceCases holds the cases of scarce host resources, and of the kernel's reports on its
// interface.
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

// TestCutOff: the counters of one host are enough to explain a lost contact.
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
