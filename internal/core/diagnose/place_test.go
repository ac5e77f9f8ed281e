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
// load do, and for more than a few of them.
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

// loadedRun is a session of one run over 20 ms and 20 Mbit/s in which a message took so
// long, with the round trip of TCP and the window beside it.
func loadedRun(latency float64, rtt time.Duration, window units.Bytes) *model.Session {
	tcp := &model.TCPSummary{
		RTT: fact.Known(rtt, "TCP_INFO"), RTTMin: fact.Known(20*time.Millisecond, "TCP_INFO"), PeerWindow: fact.Known(window, "TCP_INFO"),
	}
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

// starvedAt is s where a thread of the end at that index worked or waited for a processor
// all the time.
func starvedAt(s *model.Session, end int) *model.Session {
	s.Runs[0].Ends[end].Counters = []model.Counter{{Name: "counters_read", Of: "thread", Value: 2}, {Name: "thread_run_ms", Value: 500}, {Name: "thread_wait_ms", Value: 480}}
	return s
}

// What makes up the latency under load is said with its numbers, or that it is not known.
func TestWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		session *model.Session
		share   float64
		want    []string
	}{
		"a deep queue": {
			loadedRun(0.4, 390*time.Millisecond, 2<<20), 0.05,
			[]string{"a message takes 400 ms under load and 20 ms idle", "wait in a queue on the way", "lets 2 MiB be under way, and the path needs"},
		},
		"a queue that TCP does not see": {loadedRun(0.4, 25*time.Millisecond, 64<<10), 0.05, []string{"where it waits is not seen"}},
		"a busy processor and a deep queue": {
			starvedAt(loadedRun(0.4, 390*time.Millisecond, 64<<10), 1), 0.05,
			[]string{"under load and 20 ms idle; packets wait in a queue on the way, TCP's as well; the processor of the receiver is busy"},
		},
		"a busy processor alone": {
			starvedAt(loadedRun(0.4, 25*time.Millisecond, 64<<10), 0), 0.05, []string{"under load and 20 ms idle; the processor of the sender is busy"},
		},
		"nothing":   {loadedRun(0.021, 21*time.Millisecond, 2<<20), 0.952, []string{"nothing waits: a message takes 21 ms"}},
		"no probes": {loadedRun(0, 0, 0), math.NaN(), []string{""}},
	} {
		share, text := Waiting(c.session, model.To)
		v, known := share.Get()
		must.True(t, known != math.IsNaN(c.share) && (!known || math.Abs(v-c.share) <= 0.001), "%s: share %v %s", name, v, share.Reason())
		for _, want := range c.want {
			must.Contain(t, text, want, "%s", name)
		}
		if strings.HasPrefix(name, "a busy processor") && strings.Contains(text, "not seen") || name == "a busy processor alone" && strings.Contains(text, "queue") {
			t.Errorf("%s: %q names what it is not", name, text)
		}
	}
	_, text := Waiting(loadedRun(0.021, 0, 0), model.From)
	must.True(t, text == "", "a direction without a run: %q", text)
	must.Equal(t, Work(loadedRun(0.4, 0, 0), model.To, model.Far), "each Gbit costs far 420 ms of processor time, with an MTU of 1500")
	must.Equal(t, Work(loadedRun(0.4, 0, 0), model.To, model.Near), "")
}
