package health

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// session is a check of a clean gigabit path between desk and nas.
func session() *model.Session {
	host := func(h model.Host, name string) model.HostFacts {
		return model.HostFacts{
			Host: h, Name: name, CPUs: 4, Address: "192.0.2.1", MTU: fact.Known(1500, "test"), LinkRate: fact.Known(units.BitRate(1e9), "test"),
			Qdisc: fact.Known("fq", "test"), Interface: fact.Known("eth0", "test"),
			Knobs: map[model.KnobID]fact.Of[string]{
				"tcp.recv_buffer_max": fact.Known("67108864", "test"), "tcp.send_buffer_max": fact.Known("67108864", "test"),
				"tcp.window_scaling": fact.Known("1", "test"), "tcp.sack": fact.Known("1", "test"), "tcp.timestamps": fact.Known("1", "test"), "tcp.ecn": fact.Known("2", "test"),
			},
			NICs: []model.NIC{{Name: "eth0", Media: model.Media{Duplex: fact.Known("full", "test"), Speed: fact.Known(units.BitRate(1e9), "test")}}},
		}
	}
	s := &model.Session{
		Kind: model.KindCheck, WireRate: fact.Known(units.BitRate(1e9), "test"), Hosts: []model.HostFacts{host(model.Near, "desk"), host(model.Far, "nas")},
		Plan: model.Plan{Baseline: "one stream", Settings: []model.Setting{{Name: "one stream"}}},
		Check: &model.Check{Ways: []model.Way{
			{Direction: model.To, Asked: 1500, Passes: fact.Known(1500, "test")}, {Direction: model.From, Asked: 1500, Passes: fact.Known(1500, "test")},
		}},
	}
	for _, d := range []model.Direction{model.To, model.From} {
		s.Runs = append(s.Runs, tcp("one stream", d, 1, 940e6))
	}
	s.Runs = append(s.Runs, tcp("both at once", model.Both, 1, 920e6))
	for _, d := range []model.Direction{model.To, model.From} {
		r := model.Run{Setting: "datagrams", State: model.RunValid, Values: []model.Value{{Direction: d, Metric: model.LossRatio, Value: 0}},
			Flow: model.Flow{Engine: udp.Name, Direction: d, Params: traffic.Write(udp.Params{Rate: 470e6})},
			Ends: []model.EndReport{{Host: d.Receiver(), Flows: []model.FlowReport{{Direction: d, Role: model.Receiver, UDP: &model.UDPSummary{Received: 80000}}}}}}
		s.Runs = append(s.Runs, r)
	}
	return s
}

func tcp(setting string, d model.Direction, streams int, rate float64) model.Run {
	r := model.Run{Setting: setting, State: model.RunValid, Flow: model.Flow{Engine: "tcpbulk", Direction: d, Streams: streams, Duration: 5 * time.Second}}
	ends := map[model.Host]*model.EndReport{}
	for _, h := range []model.Host{model.Near, model.Far} {
		ends[h] = &model.EndReport{Host: h, CPUSystem: time.Second, CPUWindow: 5 * time.Second, SystemBusy: fact.Known(0.5, "test"),
			Counters: []model.Counter{{Name: "counters_read", Of: "nic", Value: 1}, {Name: "nic_rx_packets", Of: "eth0", Value: 400000}}}
	}
	for _, part := range d.Parts() {
		r.Values = append(r.Values, model.Value{Direction: part, Metric: model.Goodput, Value: rate}, model.Value{Direction: part, Metric: model.RetransmitRatio, Value: 0},
			model.Value{Direction: part, Metric: model.IdleP50, Value: 0.0002}, model.Value{Direction: part, Metric: model.LatencyP50, Value: 0.001},
			model.Value{Direction: part, Metric: model.LatencyP99, Value: 0.002}, model.Value{Direction: part, Metric: model.AddedP50, Value: 0.0008})
		bytes := units.Bytes(rate * 5 / 8)
		told := func(on bool) fact.Of[bool] { return fact.Known(on, "TCP_INFO") }
		ends[part.Sender()].Flows = append(ends[part.Sender()].Flows, model.FlowReport{Direction: part, Role: model.Sender, Bytes: bytes, Window: 5 * time.Second, TCP: &model.TCPSummary{
			MSS: fact.Known(1448, "TCP_INFO"), PathMTU: fact.Known(1500, "TCP_INFO"), Timestamps: told(true), SACK: told(true), ECN: told(false), SendScale: fact.Known(7, "TCP_INFO"),
			RTTMin: fact.Known(200*time.Microsecond, "TCP_INFO"), SegmentsOut: fact.Known(int64(400000), "TCP_INFO"), Congestion: fact.Known("cubic", "test"),
		}})
		ends[part.Receiver()].Flows = append(ends[part.Receiver()].Flows, model.FlowReport{Direction: part, Role: model.Receiver, Bytes: bytes, Window: 5 * time.Second})
	}
	r.Ends = []model.EndReport{*ends[model.Near], *ends[model.Far]}
	return r
}

// set changes a value of a run.
func set(r *model.Run, d model.Direction, m model.Metric, v float64) {
	for i := range r.Values {
		if r.Values[i].Direction == d && r.Values[i].Metric == m {
			r.Values[i].Value = v
		}
	}
}

// stopped makes the sender of a run to the far host stand still for a tenth of a second, with
// the given number of lost datagrams.
func stopped(r *model.Run, lost float64) {
	set(r, model.To, model.LossRatio, lost)
	var gaps hist.Recorder
	gaps.Record(100 * time.Millisecond)
	gaps.Add(time.Millisecond, 900)
	r.Ends = []model.EndReport{{Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, Window: time.Second, UDP: &model.UDPSummary{Gaps: gaps.Histogram()}}}}}
}

// quota uses up the far host's quota of 0.2 processors in cut of 40 periods of a run, with the
// given number of lost datagrams.
func quota(r *model.Run, cut int64, lost float64) {
	set(r, model.To, model.LossRatio, lost)
	r.Ends = []model.EndReport{{Host: model.Far, Counters: []model.Counter{
		{Name: "cpu_window_ms", Value: 1000}, {Name: "cgroup_quota_ms", Value: 200}, {Name: "cgroup_periods", Value: 40}, {Name: "cgroup_periods_throttled", Value: cut},
	}}}
}

func TestFew(t *testing.T) {
	for n, want := range map[int]bool{0: false, 3: true, 99: true, 100: false} {
		var times hist.Recorder
		for range n {
			times.Record(time.Millisecond)
		}
		r := model.Run{Ends: []model.EndReport{{Latencies: []model.Latency{{Name: "loaded udp", Times: times.Histogram(), Sent: int64(n)}}[:min(n, 1)]}}}
		must.Equal(t, few(r), want, "%d answers", n)
	}
}

// TestLines breaks one thing at a time: its line reports it, and no other line does.
func TestLines(t *testing.T) {
	dead := func(s *model.Session, i int) {
		s.Runs[i].State, s.Runs[i].Values, s.Runs[i].Ends, s.Runs[i].Reason = model.RunInvalid, nil, nil, "no bytes arrived"
	}
	for name, c := range map[string]struct {
		change func(s *model.Session)
		want   map[string]State // by thing and direction; all others are ok or not seen
		says   string
	}{
		"nothing":           {func(*model.Session) {}, nil, ""},
		"half of the speed": {func(s *model.Session) { set(&s.Runs[1], model.From, model.Goodput, 470e6) }, map[string]State{"speed from": Poor}, "49.9 % of the 941.5"},
		"hardly any speed":  {func(s *model.Session) { s.Runs[0] = tcp("one stream", model.To, 1, 9e6) }, map[string]State{"speed to": Bad}, ""},
		"one of many held back": {func(s *model.Session) {
			s.Runs[0] = tcp("one stream", model.To, 1, 300e6)
			s.Runs = append(s.Runs, tcp("several streams", model.To, 8, 930e6))
		}, map[string]State{"speed to": Poor}, "8 streams carry 930 Mbit/s"},
		"no ceiling is known": {func(s *model.Session) { s.WireRate = fact.Unknown[units.BitRate]("virtual") }, nil, "nothing to hold it against: the rate of the link is unknown: virtual"},
		"a dead direction":    {func(s *model.Session) { dead(s, 1) }, map[string]State{"reach": Bad, "speed from": Bad}, "no data arrive from nas"},
		"a host was lost": {func(s *model.Session) { // smaller segments arrived later
			dead(s, 0)
			s.Runs[0].LostContact = true
			small := tcp("segments of 536", model.To, 1, 300e6)
			small.Flow.MSS = 536
			s.Runs = append(s.Runs, small)
		}, nil, ""},
		"only small ones arrive": {func(s *model.Session) {
			dead(s, 0)
			small := tcp("segments of 536", model.To, 1, 300e6)
			small.Flow.MSS = 536
			s.Runs = append(s.Runs, small)
		}, map[string]State{"reach": Bad, "mtu to": Bad, "speed to": Bad}, "only small packets arrive from desk"},
		"nothing arrives":           {func(s *model.Session) { dead(s, 0); dead(s, 1) }, map[string]State{"reach": Bad, "speed to": Bad, "speed from": Bad}, "no data arrive"},
		"some datagrams lost":       {func(s *model.Session) { set(&s.Runs[3], model.To, model.LossRatio, 0.004) }, map[string]State{"loss to": Poor}, "0.4 %"},
		"many datagrams lost":       {func(s *model.Session) { set(&s.Runs[4], model.From, model.LossRatio, 0.04) }, map[string]State{"loss from": Bad}, ""},
		"a sender that stopped":     {func(s *model.Session) { stopped(&s.Runs[3], 0.04) }, nil, "stopped for up to 100 ms, 10 % of the time in all"},
		"a quota that loses some":   {func(s *model.Session) { quota(&s.Runs[3], 30, 0.04) }, nil, "4 % of datagrams at 470 Mbit/s: a quota of 0.2 processors at nas was used up in 30 of its 40 periods, so this says little of the path"},
		"a quota that loses none":   {func(s *model.Session) { quota(&s.Runs[3], 1, 0.04) }, map[string]State{"loss to": Bad}, "a quota of 0.2 processors at nas was used up in 1 of its 40 periods"},
		"more lost than it sent so": {func(s *model.Session) { stopped(&s.Runs[3], 0.12) }, map[string]State{"loss to": Bad}, "12 %"},
		"a long queue":              {func(s *model.Session) { set(&s.Runs[0], model.To, model.AddedP50, 0.012) }, map[string]State{"queueing to": Poor}, "12 ms"},
		"a bloated queue":           {func(s *model.Session) { set(&s.Runs[0], model.To, model.AddedP50, 0.4) }, map[string]State{"queueing to": Bad}, ""},
		"a long path with a queue of its own length": {func(s *model.Session) {
			set(&s.Runs[0], model.To, model.IdleP50, 0.08)
			set(&s.Runs[0], model.To, model.AddedP50, 0.07)
		}, nil, ""},
		"a shared medium": {func(s *model.Session) { s.Runs[2] = tcp("both at once", model.Both, 1, 480e6) }, map[string]State{"both at once": Poor}, "share something"},
		"a window that limits one direction": {func(s *model.Session) {
			s.Runs[2] = tcp("both at once", model.Both, 1, 480e6)
			t := s.Runs[0].Sent(model.To)
			t.Busy, t.RwndLimited = fact.Known(time.Second, "TCP_INFO"), fact.Known(800*time.Millisecond, "TCP_INFO")
		}, nil, ""},
		"half duplex": {func(s *model.Session) {
			for i := range s.Hosts {
				s.Hosts[i].NICs[0].Media.Duplex = fact.Known("half", "test")
			}
			for i := range s.Runs[:2] { // it carries less
				s.Runs[i] = tcp("one stream", []model.Direction{model.To, model.From}[i], 1, 900e6)
			}
		}, map[string]State{"link": Poor}, "half duplex"},
		"a duplex mismatch": {func(s *model.Session) {
			s.Hosts[0].NICs[0].Media.Duplex = fact.Known("half", "test")
			s.Runs[0], s.Runs[1] = tcp("one stream", model.To, 1, 900e6), tcp("one stream", model.From, 1, 900e6)
		}, map[string]State{"link": Bad}, "a mismatch"},
		"broken frames": {func(s *model.Session) {
			s.Runs[0].Ends[1].Counters = append(s.Runs[0].Ends[1].Counters, model.Counter{Name: "nic_rx_crc_errors", Of: "eth0", Value: 40})
		}, map[string]State{"link": Bad}, "frames arrive broken"},
		"a lost link": {func(s *model.Session) {
			s.Runs[0].Ends[1].Counters = append(s.Runs[0].Ends[1].Counters, model.Counter{Name: "nic_carrier_down", Of: "eth0", Value: 1})
		}, map[string]State{"link": Bad}, "went down during the check"},
		"a stripped option": {func(s *model.Session) {
			s.Runs[0].Sent(model.To).SACK, s.Runs[1].Sent(model.From).SACK = fact.Known(false, "TCP_INFO"), fact.Known(false, "TCP_INFO")
		}, map[string]State{"options": Poor}, "lost on the way: sack"},
		"an option lost one way": {func(s *model.Session) { s.Runs[1].Sent(model.From).SendScale = fact.Unknown[int]("off") }, map[string]State{"options": Poor}, "scaling"},
		"an option nobody offers": {func(s *model.Session) {
			s.Hosts[1].Knobs["tcp.sack"] = fact.Known("0", "test")
			s.Runs[0].Sent(model.To).SACK, s.Runs[1].Sent(model.From).SACK = fact.Known(false, "TCP_INFO"), fact.Known(false, "TCP_INFO")
		}, nil, ""},
		"a full core": {func(s *model.Session) {
			s.Runs[0] = tcp("one stream", model.To, 1, 500e6)
			s.Runs[0].Ends[1].CPUSystem = 5 * time.Second
		}, map[string]State{"cpu": Poor, "speed to": Poor}, "at nas"},
		"a full core on a full path": {func(s *model.Session) { s.Runs[0].Ends[1].CPUSystem = 5 * time.Second }, nil, ""},
		"a wrong clock": {func(s *model.Session) {
			s.Runs[0].Ends[1].Flows[0].Window *= 2
			s.Runs[1].Ends[1].Flows[0].Window *= 2
		}, map[string]State{"clock": Poor}, "100.0 %"},
		"tests too short for the round trip": {func(s *model.Session) { // of 600 ms: slow start alone takes 9 s
			for i := range s.Runs[:3] {
				for _, d := range s.Runs[i].Flow.Direction.Parts() {
					set(&s.Runs[i], d, model.Goodput, 90e6)
					s.Runs[i].Sent(d).RTTMin = fact.Known(600*time.Millisecond, "TCP_INFO")
				}
			}
		}, nil, "speed to at least 90 Mbit/s the test was too short: 5 s of the 17.6 s that a round trip of 600 ms takes"},
		"counts apart one way": {func(s *model.Session) { s.Runs[0].Ends[1].Flows[0].Window *= 2 }, nil, "fault of the measurement and no clock"},
		"counts apart on one machine": {func(s *model.Session) {
			s.Far = "lab:rate=1gbit"
			s.Runs[0].Ends[1].Flows[0].Window *= 2
			s.Runs[1].Ends[1].Flows[0].Window *= 2
		}, nil, "fault of the measurement and no clock"},
		"a black hole": {func(s *model.Session) {
			s.Check.Ways[1].Passes, s.Check.Ways[1].Exact = fact.Known(1400, "test"), true
			dead(s, 1)
		}, map[string]State{"reach": Bad, "mtu from": Bad, "speed from": Bad}, "no router says so"},
		"nobody probes":        {func(s *model.Session) { s.Check.Ways[1].Passes = fact.Unknown[int]("not visible: measures only") }, nil, "by TCP"},
		"nothing was measured": {func(s *model.Session) { s.Runs = nil; s.Check.Ways = nil }, nil, "nothing was measured"},
	} {
		t.Run(name, func(t *testing.T) {
			s := session()
			c.change(s)
			all := ""
			for _, l := range Judge(s) {
				key := strings.TrimSpace(l.Thing + " " + string(l.Direction))
				all += key + " " + l.Number + " " + l.Text + "\n"
				want, amiss := c.want[key]
				must.True(t, (!amiss || l.State == want) && (amiss || l.State == OK || l.State == Unseen),
					"%s is %s (%s, %s), want %q", key, l.State, l.Number, l.Text, want)
				must.True(t, l.State != Unseen || l.Text != "", "%s was not seen, and no text says why", key)
			}
			must.Contain(t, all, c.says)
		})
	}
}

// TestExpect parses demands, and checks them against the session.
func TestExpect(t *testing.T) {
	for text, met := range map[string]bool{
		"900M": true, "950M": false, "900mbit,loss<0.1%,p99<20ms": true, "p99<1ms": false, "rtt<1ms,added<1ms,p50<=1ms": true,
		"to.goodput>900M": true, "from.goodput>=950M": false, "mtu>=1500": true, "mtu>1500": false, " 900M , loss <= 0% ": true,
	} {
		clauses, err := ParseExpect(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		all := true
		for _, m := range Meets(session(), clauses) {
			all = all && m.Met
			must.True(t, m.Text != "" && m.Clause != "" && m.Measured.IsKnown(), "%s: %+v", text, m)
		}
		must.Equal(t, all, met, "%s: met", text)
	}
	for text, says := range map[string]string{
		"": "neither a rate", "fast": "neither a rate", "speed>3": "none of goodput", "loss>1%": "low: use <", "900M,p99<soon,x<1": "none of", "goodput<9M": "high: use >",
		"-5M": "neither", "0": "neither", "mtu>=99999": "99999", "p99<": "p99<", "up.goodput>1M": "none of",
	} {
		must.Say(t, must.Err(ParseExpect(text)), says, "%q", text)
	}
	s := session()
	s.Runs[1].State = model.RunInvalid
	clauses, err := ParseExpect("1M,p99<1s")
	got := Meets(s, clauses)
	must.True(t, err == nil && !got[0].Met && !got[1].Met && got[0].Measured.Or(1) == 0 && !got[1].Measured.IsKnown(), "a dead direction: %+v, %v", got, err)
	rapid.Check(t, func(t *rapid.T) { // any text that parses gives a demand that holds or fails
		if clauses, err := ParseExpect(rapid.String().Draw(t, "text")); err == nil {
			_ = Meets(session(), clauses)
		}
	})
}

// TestLonger parses a longer path, and lists what the hosts lack for it.
func TestLonger(t *testing.T) {
	for text, want := range map[string]Longer{"10gbit@80ms": {10e9, 80 * time.Millisecond}, " 100M @ 1s ": {100e6, time.Second}} {
		must.Equal(t, must.Get(ParseLonger(text))(t), want, "%q", text)
	}
	for _, text := range []string{"", "10gbit", "@80ms", "10gbit@", "10gbit@0s", "0@1s", "1gbit@1h", "x@y"} {
		must.Fail(t, must.Err(ParseLonger(text)), "%q is taken", text)
	}
	states := func(s *model.Session, l Longer) map[string]State {
		out := map[string]State{}
		for _, line := range Carries(s, l) {
			out[line.Thing+" "+string(line.Direction)] = line.State
			must.True(t, line.Text != "", "%+v says nothing", line)
		}
		return out
	}
	// 100 Mbit/s at 20 ms is 250 kB under way, and may lose about 1 in 45,000. The session lost
	// 0 of 400,000, which is at most 1 in 133,000.
	got := states(session(), Longer{100e6, 20 * time.Millisecond})
	for _, thing := range []string{"hosts to", "window to", "loss to", "start to", "order from"} {
		must.Equal(t, got[thing], OK, "%s", thing)
	}
	// 10 Gbit/s at 80 ms is 100 MB under way, more than the links and the buffers hold.
	got = states(session(), Longer{10e9, 80 * time.Millisecond})
	must.True(t, got["hosts to"] == Bad && got["window to"] == Poor && got["loss to"] == Unseen, "%v", got)
	s := session()
	s.Hosts[0].Qdisc = fact.Known("fq_codel", "test")
	s.Hosts[1].Knobs["tcp.window_scaling"] = fact.Known("0", "test")
	s.Runs[4].Ends[0].Flows[0].UDP.Reordered = 4000
	set(&s.Runs[0], model.To, model.RetransmitRatio, 0.01)
	got = states(s, Longer{500e6, 20 * time.Millisecond})
	must.True(t, got["start to"] == Poor && got["window to"] == Poor && got["order from"] == Poor && got["loss to"] == Poor &&
		got["start from"] == OK, "%v", got)
	got = states(session(), Longer{units.BitRate(1e12), 10 * time.Second})
	must.True(t, got["window to"] == Bad, "more than a window of TCP: %v", got)
	got = states(&model.Session{Plan: session().Plan}, Longer{1e9, time.Second})
	must.True(t, got["hosts to"] == Unseen && got["loss to"] == Unseen && got["window to"] == Unseen, "of nothing: %v", got)
}
