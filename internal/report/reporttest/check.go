package reporttest

import (
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// checkTest is `linerate check --for 10gbit@80ms --expect ...`: a router on the path to the far
// host has a small MTU, and a small window limits the reverse direction.
func checkTest() Case {
	const single, many = "one stream", "several streams"
	one := probes.Over(model.Flow{Engine: "tcpbulk", Direction: model.To, Streams: 1, Omit: time.Second, Duration: 20 * time.Second, Interval: time.Second})
	one.Lead = time.Second
	datagrams := model.Flow{Engine: udp.Name, Direction: model.To, Duration: 2 * time.Second, Params: traffic.Write(udp.Params{Rate: 460e6})}
	p := model.Plan{
		Settings: []model.Setting{{Name: single}}, Baseline: single, Mode: model.FixedBlocks, Confidence: 0.95,
		Directions: []model.Direction{model.To, model.From}, Flow: one,
		Tests: []model.Test{{Name: single, Flow: one}, {Name: "segments of 536", Flow: one, IfDead: true}, {Name: "datagrams at 50 %", Flow: datagrams, Share: 0.5}},
	}
	c := Case{"check", base("20261122T080000-chk1", model.KindCheck, p), map[int][]model.Sample{}}
	for i, d := range []model.Direction{model.To, model.From} {
		c.add(1+i, single, d, []float64{934.8e6, 611.2e6}[i])
		r := &c.Session.Runs[i]
		r.Flow = one
		r.Flow.Direction = d
		r.Values = append(r.Values, model.Value{Direction: d, Metric: model.RetransmitRatio, Value: []float64{0, 2e-5}[i]},
			model.Value{Direction: d, Metric: model.IdleP50, Value: 0.00021}, model.Value{Direction: d, Metric: model.LatencyP50, Value: []float64{0.0014, 0.0113}[i]},
			model.Value{Direction: d, Metric: model.LatencyP99, Value: []float64{0.0021, 0.0160}[i]}, model.Value{Direction: d, Metric: model.AddedP50, Value: []float64{0.0012, 0.0111}[i]})
		for k := range r.Ends {
			r.Ends[k].Counters = []model.Counter{{Name: "counters_read", Of: "nic", Value: 1}, {Name: "nic_rx_packets", Of: "eth0", Value: 1600000}}
			for m := range r.Ends[k].Flows {
				if t := r.Ends[k].Flows[m].TCP; t != nil {
					t.SACK, t.SendScale, t.ECN = fact.Known(true, "TCP_INFO"), fact.Known(7, "TCP_INFO"), fact.Known(false, "TCP_INFO")
					t.SegmentsOut = fact.Known(int64(1600000), "TCP_INFO")
					t.SegmentsIn = fact.Known(int64(800000), "TCP_INFO")
				}
			}
		}
	}
	c.add(3, many, model.From, 938.1e6)
	c.Session.Runs[2].Flow.Streams = 8
	c.add(4, "both at once", model.Both, 905e6)
	c.add(5, "datagrams at 50 %", model.To, 459.9e6)
	r := &c.Session.Runs[4]
	r.Flow = datagrams
	r.Values = append(r.Values, model.Value{Direction: model.To, Metric: model.LossRatio, Value: 0.00004})
	r.Ends[0].Flows[0].TCP, r.Ends[1].Flows[0].TCP = nil, nil
	r.Ends[1].Flows[0].UDP = &model.UDPSummary{Received: 78000, Lost: 3, Reordered: 1200, MaxExtent: 4, Jitter: fact.Known(41*time.Microsecond, "RFC 3550")}
	known := func(v int) fact.Of[int] { return fact.Known(v, "rtnetlink") }
	none := fact.Unknown[string]("made by software")
	c.Session.Hosts[0].Path = []model.Hop{
		{Kind: model.HopWireGuard, Name: "wg0", MTU: known(1420), Rate: fact.Unknown[units.BitRate]("wg0 is a virtual link"), Duplex: none, To: "198.51.100.7:51820", Note: "encrypted"},
		{Kind: model.HopDevice, Name: "eth0", MTU: known(1500), Rate: fact.Known(units.BitRate(1e9), "sysfs"), Duplex: fact.Known("full", "ethtool")},
		{Kind: model.HopNeighbour, Name: "192.0.2.254", MTU: fact.Unknown[int]("not visible"), Rate: fact.Unknown[units.BitRate]("not visible"), Duplex: fact.Unknown[string]("not visible")},
	}
	c.Session.Hosts[0].Route = &model.Route{Peer: "192.0.2.2", Interface: fact.Known("wg0", "rtnetlink"), Source: fact.Known("192.0.2.1", "rtnetlink"),
		Gateway: fact.Known("192.0.2.254", "rtnetlink"), MTU: known(1420)}
	c.Session.Check = &model.Check{
		Quick: true, Expect: "900M,loss<0.1%,p99<20ms", For: "10gbit@80ms",
		Ways: []model.Way{
			{Direction: model.To, Asked: 1500, Passes: fact.Known(1420, "probes"), Exact: true, Reported: true, Router: "192.0.2.254", RouterMTU: 1420,
				Narrow:    &model.Place{Kind: model.PlaceNarrow, Direction: model.To, Before: model.PlaceNode{Host: model.Near}, Behind: model.PlaceNode{Hop: 1, Address: "192.0.2.254"}},
				Datagrams: fact.Known(1420, "datagrams between the agents that must not be cut"), DatagramsExact: true, Marks: fact.Known(0.0, "datagrams between the agents, marked ECT(0)")},
			{Direction: model.From, Asked: 1500, Passes: fact.Unknown[int]("not visible: measures only")},
		},
		Own: []model.Own{{Host: model.Near, Rate: fact.Known(units.BitRate(42e9), "one stream to itself")}, {Host: model.Far, Rate: fact.Unknown[units.BitRate]("not visible: busy")}},
	}
	c.Session.Check.Disks = []model.Disk{
		{Host: model.Near, Read: fact.Known(units.BitRate(4e9), "32 MiB past the page cache"), Write: fact.Known(units.BitRate(2e9), "32 MiB past the page cache")},
		{Host: model.Far, Read: fact.Known(units.BitRate(1.1e9), "32 MiB past the page cache"), Write: fact.Known(units.BitRate(320e6), "32 MiB past the page cache")},
	}
	c.Session.Findings = quickTest().Session.Findings
	c.traced()
	return c
}

// traced adds a path of three routers to the far host; the second is silent, and packets wait
// in front of the link behind the first.
func (c *Case) traced() {
	ms := func(idle, loaded float64) ([]time.Duration, []time.Duration) {
		return []time.Duration{time.Duration(idle * 1e6), 0}, []time.Duration{time.Duration(loaded * 1e6), time.Duration(loaded * 1.1e6)}
	}
	t := &model.Trace{Direction: model.To, Ports: 5}
	for i, address := range []string{"192.0.2.254", "", "198.51.100.1", "192.0.2.2"} {
		h := model.TraceHop{TTL: i + 1, Address: address, Arrived: i == 3}
		if address != "" {
			h.Idle, h.Loaded = ms(0.1*float64(i+1), 0.1*float64(i+1)+1.3*float64(min(i, 1)))
		}
		t.Hops = append(t.Hops, h)
	}
	c.Session.Runs[0].Ends[0].Trace = t
	c.Session.Runs[1].Ends[1].Trace = &model.Trace{Direction: model.From, Why: "trace the routers: not on this system"}
	c.Session.Findings[0].Place = &model.Place{
		Kind: model.PlaceLink, Direction: model.To, Ports: 2, Before: model.PlaceNode{Hop: 1, Address: "192.0.2.254"}, Behind: model.PlaceNode{Hop: 3, Address: "198.51.100.1"},
		Silent: []int{2}, Late: []int{2}, Later: 1200 * time.Microsecond, Still: 10 * time.Microsecond,
	}
}
