package limits

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func known[T any](v T) fact.Of[T] { return fact.Known(v, "test") }

// path is a session between two hosts on gigabit Ethernet, with one valid run
// each way whose segments carried 1448 bytes.
func path(change func(*model.Session)) *model.Session {
	s := &model.Session{WireRate: known(units.BitRate(1e9)), Plan: model.Plan{Baseline: "current", Flow: model.Flow{Engine: "tcpbulk"}}}
	for i, h := range []model.Host{model.Near, model.Far} {
		s.Hosts = append(s.Hosts, model.HostFacts{Host: h, Name: []string{"desk", "nas"}[i], Address: "192.0.2.1", MTU: known(1500), NICs: []model.NIC{{Name: "eth0"}}})
	}
	for i, d := range []model.Direction{model.To, model.From} {
		s.Runs = append(s.Runs, model.Run{Number: i + 1, Setting: "current", State: model.RunValid, Ends: []model.EndReport{{
			Host: d.Sender(), Flows: []model.FlowReport{{Direction: d, Role: model.Sender, TCP: &model.TCPSummary{
				MSS: known(1448), Timestamps: known(true), RTTMin: known(time.Duration(10-i) * time.Millisecond)}}},
		}}})
	}
	change(s)
	return s
}

// tcp returns the report of the sender of direction d.
func tcp(s *model.Session, d model.Direction) *model.TCPSummary {
	if d == model.From {
		return s.Runs[1].Ends[0].Flows[0].TCP
	}
	return s.Runs[0].Ends[0].Flows[0].TCP
}

// half makes the first card a half duplex one, and the runs carry rates in a window of that length.
func half(window time.Duration, rates ...float64) func(*model.Session) {
	return func(s *model.Session) {
		s.Hosts[0].NICs[0].Media.Duplex = known("half")
		carried(s, window, rates...)
	}
}

// carried makes the runs carry rates in a window of that length.
func carried(s *model.Session, window time.Duration, rates ...float64) {
	for i, d := range []model.Direction{model.To, model.From} {
		s.Runs[i].Values = []model.Value{{Direction: d, Metric: model.Goodput, Value: rates[i]}}
		s.Runs[i].Ends = append(s.Runs[i].Ends, model.EndReport{Host: d.Receiver(), Flows: []model.FlowReport{{Direction: d, Role: model.Receiver, Window: window}}})
	}
}

func TestOfPath(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*model.Session)
		to, from float64  // Mbit/s; 0 is unknown
		says     []string // parts of the source of To, or of the reason
	}{
		// diagnosis.md section 2.1.
		"gigabit Ethernet": {func(*model.Session) {}, 941.48, 941.48, []string{"link: 1 Gbit/s (test)", "segments of 1448 bytes"}},
		"each direction has its rate": {func(s *model.Session) {
			s.WireRate = known(units.BitRate(5e6)) // the slower one, as a lab says it
			s.Hosts[0].PathRate, s.Hosts[1].PathRate = known(units.BitRate(5e6)), known(units.BitRate(50e6))
		}, 4.7074, 47.074, []string{"5 Mbit/s"}},
		"each direction has its segments":          {func(s *model.Session) { tcp(s, model.To).MSS = known(524) }, 853.42, 941.48, []string{"segments of 524 bytes"}},
		"jumbo frames that the path does not take": {func(s *model.Session) { s.Hosts[0].MTU, s.Hosts[1].MTU = known(9000), known(9000) }, 941.48, 941.48, nil},
		"one end without a known MTU, but a kernel that knows its segments": {func(s *model.Session) {
			s.Hosts[1].MTU = fact.Unknown[int]("does not tell")
		}, 941.48, 941.48, nil},
		"no timestamps": {func(s *model.Session) {
			for _, d := range []model.Direction{model.To, model.From} {
				tcp(s, d).MSS, tcp(s, d).Timestamps = known(1460), known(false)
			}
		}, 949.28, 949.28, nil},
		"a kernel that counts the options into its segments": {func(s *model.Session) {
			tcp(s, model.To).MSS = known(1460)
		}, 941.48, 941.48, []string{"segments of 1448 bytes"}},
		"no kernel tells: the smaller MTU": {func(s *model.Session) { s.Runs, s.Hosts[0].MTU = nil, known(9000) }, 941.48, 941.48, []string{"MTU 1500"}},
		"no kernel tells: the segment size that was asked for": {func(s *model.Session) {
			s.Runs, s.Plan.Flow.MSS = nil, 536
		}, 853.42, 853.42, []string{"maximum segment size 536"}},
		"runs of other settings do not count": {func(s *model.Session) {
			jumbo := *tcp(s, model.To)
			jumbo.MSS = known(8948)
			s.Runs = append(s.Runs, model.Run{Number: 3, Setting: "jumbo", State: model.RunValid, Ends: []model.EndReport{{
				Host: model.Near, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, TCP: &jumbo}}}}})
		}, 941.48, 941.48, nil},
		"IPv6":                 {func(s *model.Session) { s.Runs, s.Hosts[1].Address = nil, "2001:db8::1" }, 928.48, 928.48, nil},
		"IPv4 written as IPv6": {func(s *model.Session) { s.Runs, s.Hosts[1].Address = nil, "::ffff:192.0.2.1" }, 941.48, 941.48, nil},
		"VLAN":                 {func(s *model.Session) { s.Hosts[1].NICs[0].Kind = known("vlan") }, 939.04, 939.04, nil},
		// diagnosis.md section 2.1: 2 x 1448 of 2 x 1538 + 90.
		"half duplex": {func(s *model.Session) { s.Hosts[0].NICs[0].Media.Duplex = known("half") }, 914.72, 914.72, nil},
		"half duplex by a card's word, and more is carried":           {half(100*time.Millisecond, 930e6, 935e6), 941.48, 941.48, nil},
		"half duplex, and more in a window that says it all":          {half(10*time.Second, 200e6, 935e6), 941.48, 941.48, nil},
		"half duplex, and more in a window that may hold what waited": {half(100*time.Millisecond, 200e6, 935e6), 914.72, 914.72, nil},
		"half duplex that is full":                                    {half(10*time.Second, 919e6, 919e6), 914.72, 914.72, nil},
		"half duplex that is the default of the driver of a card without a wire": {func(s *model.Session) {
			n := &s.Hosts[0].NICs[0]
			n.Media.Duplex, n.Media.Supported, n.Bus.Kind = known("half"), known([]string{}), known("virtual")
		}, 941.48, 941.48, nil},
		"half duplex, and each direction has its rate": {func(s *model.Session) {
			s.Hosts[0].NICs[0].Media.Duplex = known("half")
			s.Hosts[0].PathRate, s.Hosts[1].PathRate = known(units.BitRate(5e6)), known(units.BitRate(50e6))
			carried(s, 10*time.Second, 4.4e6, 44e6)
		}, 4.5736, 45.736, nil},
		"UDP fills packets": {func(s *model.Session) { s.Plan.Flow.Engine = "udpflow" }, 957.09, 957.09, []string{"MTU 1500"}},
		"UDP beside probes": {func(s *model.Session) {
			s.Plan.Flow = model.Flow{Engine: "loaded", Params: traffic.Write(probes.Params{Engine: "udpflow"})}
		}, 957.09, 957.09, nil},
		"UDP in small steps": {func(s *model.Session) { s.Plan.Flow = model.Flow{Engine: "udpflow", Block: 100} }, 602.41, 602.41, []string{"datagrams of 100 B"}},
		"a bus that is slower than the link": {func(s *model.Session) {
			s.Hosts[1].NICs[0].Bus.Allows = known(units.BitRate(500e6))
		}, 478.20, 478.20, []string{"bus of nas: 500 Mbit/s (test)"}},
		"a bus that is faster than the link": {func(s *model.Session) { s.Hosts[1].NICs[0].Bus.Allows = known(units.BitRate(8e9)) }, 941.48, 941.48, []string{"link"}},
		"nobody knows the link": {func(s *model.Session) {
			s.WireRate = fact.Unknown[units.BitRate]("virtual")
		}, 0, 0, []string{"the rate of the link is unknown: virtual"}},
		"nobody knows the packets": {func(s *model.Session) {
			s.Runs, s.Hosts[1].MTU = nil, fact.Unknown[int]("does not tell")
		}, 0, 0, []string{"the MTU is unknown at one end"}},
		"nobody knows anything": {func(s *model.Session) { *s = model.Session{} }, 0, 0, []string{"unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := path(c.change)
			for d, want := range map[model.Direction]float64{model.To: c.to, model.From: c.from} {
				got := OfPath(s, d)
				rate, ok := got.Rate.Get()
				must.True(t, ok == (want > 0) && (!ok || !(math.Abs(float64(rate)/1e6-want) > want*1e-4)), "%s: %v, %v (%s), want %v Mbit/s", d, rate, ok, got.Rate.Reason(), want)
				must.True(t, got.Direction == d && (!ok || len(got.Limits) != 0 && got.Limits[0].Rate == rate), "%s: %+v", d, got)
			}
			to := OfPath(s, model.To).Rate
			for _, part := range c.says {
				must.Contain(t, to.Source()+to.Reason(), part)
			}
		})
	}
}

// A measurement above the ceiling shows that the ceiling is wrong: nothing is compared with it
// (diagnosis.md section 4.0, rule 1).
func TestRefuted(t *testing.T) {
	c := OfPath(path(func(*model.Session) {}), model.To)
	for rate, refuted := range map[units.BitRate]bool{1e6: false, 941e6: false, 960e6: false, 980e6: true, 9e9: true} {
		must.True(t, c.Refuted(rate) == refuted && c.Against(rate).IsKnown() != refuted, "%s: refuted %v, %v", rate, c.Refuted(rate), c.Against(rate))
	}
	why := c.Against(9e9).Reason()
	must.True(t, strings.Contains(why, "9 Gbit/s") && strings.Contains(why, "941.5 Mbit/s"), "reason %q", why)
	must.True(t, !(Ceiling{}).Refuted(1e12), "an unknown ceiling was refuted")
}

// TestWaitedBeforeTheWindow: data that arrived before a window does not count as a rate above
// the link's, as far as it explains the excess. The numbers are from a recorded run: 1.727
// Mbit/s over a link of 1.67 Mbit/s, in 2.5 s.
func TestWaitedBeforeTheWindow(t *testing.T) {
	session := func(window time.Duration) *model.Session {
		return &model.Session{
			WireRate: fact.Known(units.BitRate(1.67e6), "test"), Plan: model.Plan{Baseline: "one"},
			Hosts: []model.HostFacts{{Host: model.Near, MTU: fact.Known(1500, "test")}, {Host: model.Far, MTU: fact.Known(1500, "test")}},
			Runs: []model.Run{{Setting: "one", State: model.RunValid, Ends: []model.EndReport{{Host: model.Far, Flows: []model.FlowReport{
				{Direction: model.To, Role: model.Receiver, Window: window},
			}}}}},
		}
	}
	for window, refuted := range map[time.Duration]bool{2500 * time.Millisecond: false, 30 * time.Second: true} {
		c := OfPath(session(window), model.To)
		must.True(t, c.Refuted(1.727e6) == refuted && c.Against(1.727e6).IsKnown() != refuted, "%s: refuted %v", window, !refuted)
	}
	must.True(t, OfPath(session(2500*time.Millisecond), model.From).Refuted(1.727e6), "the other direction has no window")
}

func TestLeastRTT(t *testing.T) {
	s := path(func(*model.Session) {})
	rtt, ok := LeastRTT(s).Get()
	must.True(t, ok && rtt == 9*time.Millisecond, "%v, %v", rtt, ok)
	s.Runs[1].State = model.RunInvalid
	must.Equal(t, LeastRTT(s).Or(0), 10*time.Millisecond, "of a run that is not valid")
	must.True(t, !LeastRTT(&model.Session{}).IsKnown(), "known of nothing")
}

// TestDuplex ignores only the half duplex of an emulated card without link modes.
func TestDuplex(t *testing.T) {
	for _, c := range []struct {
		bus, duplex string
		modes       []string
		want        string
	}{
		{"virtual", "half", []string{}, ""},
		{"virtual", "full", []string{}, "full"}, // virtio_net
		{"virtual", "half", []string{"10baseT/Half", "10baseT/Full"}, "half"},
		{"pci", "half", []string{}, "half"}, // an old card without a list of modes
	} {
		var n model.NIC
		n.Bus.Kind, n.Media.Duplex, n.Media.Supported = known(c.bus), known(c.duplex), known(c.modes)
		must.Equal(t, Duplex(n), c.want, "%+v", c)
	}
}

func TestDatagramGoodput(t *testing.T) {
	for _, c := range []struct {
		wire    Wire
		payload int
		want    float64 // bytes of payload per byte on the wire
	}{
		{Wire{Rate: 1e9, MTU: 1500}, 1472, 1472.0 / 1538},
		{Wire{Rate: 1e9, MTU: 1500}, 64, 64.0 / (64 + 28 + 38)},
		{Wire{Rate: 1e9, MTU: 1500}, 16, 16.0 / 84}, // 44 bytes of packet are padded to 46
		{Wire{Rate: 1e9, MTU: 1500, IPv6: true}, 1452, 1452.0 / 1538},
		{Wire{Rate: 1e9, MTU: 9000, VLANTags: 1}, 8972, 8972.0 / 9042},
		// 1481 bytes with the UDP header: one full fragment, one of a byte.
		{Wire{Rate: 1e9, MTU: 1500}, 1473, 1473.0 / (1538 + 84)},
		// 44 fragments of 1480 and one of 395 bytes.
		{Wire{Rate: 1e9, MTU: 1500}, 65507, 65507.0 / (44*1538 + 395 + 20 + 38)},
		// An extension header in each: 1448 data bytes, then 8 and 1 left.
		{Wire{Rate: 1e9, MTU: 1500, IPv6: true}, 1453, 1453.0 / (1448 + 48 + 38 + 13 + 48 + 38)},
	} {
		got, err := c.wire.DatagramGoodput(c.payload)
		must.True(t, err == nil && !(math.Abs(float64(got)/(1e9*c.want)-1) > 1e-12), "%+v with %d bytes: %v, %v; want %v", c.wire, c.payload, float64(got), err, 1e9*c.want)
	}
	must.Fail(t, must.Err((Wire{Rate: 1e9, MTU: 1500}).DatagramGoodput(65508)), "65508 bytes fit nowhere")
	must.Fail(t, must.Err((Wire{Rate: 1e9}).DatagramGoodput(1)), "a wire without an MTU")
}

// Full-sized datagrams fill the wire like full-sized packets, and no datagram
// does better than a wire without headers.
func TestDatagramLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Wire{Rate: 1e9, MTU: rapid.IntRange(minMTU6, 9000).Draw(t, "mtu"), IPv6: rapid.Bool().Draw(t, "6"), UDP: true, VLANTags: rapid.IntRange(0, 2).Draw(t, "tags")}
		full := must.Get(w.Payload())(t)
		whole := must.Get(w.Goodput())(t)
		got := must.Get(w.DatagramGoodput(full))(t)
		must.Need(t, got == whole, "%v; want %v", got, whole)
		n := rapid.IntRange(1, maxDatagram).Draw(t, "payload")
		got, err := w.DatagramGoodput(n)
		must.Need(t, err == nil && !(got <= 0) && !(got >= w.Rate), "%d bytes: %v, %v", n, got, err)
	})
}
