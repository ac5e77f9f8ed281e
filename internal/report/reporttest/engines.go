package reporttest

import (
	"time"

	"linerate/internal/core/bottleneck"
	"linerate/internal/core/fact"
	"linerate/internal/core/hist"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/search"
	"linerate/internal/core/sweep"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// Kinds returns the kinds of traffic of these sessions.
func Kinds() traffic.Kinds {
	return append(metric.Kinds(), sweep.Traffic(), sweep.NPtcp(), bottleneck.Traffic())
}

// times returns a distribution of n times around middle.
func times(middle time.Duration, n int) *hist.Histogram {
	var h hist.Recorder
	for i := range n {
		h.Record(middle + time.Duration(float64(middle)*noise(i)))
	}
	h.Record(4 * middle)
	return h.Histogram()
}

// datagramTest is a test with paced UDP and some loss, with probes beside it.
func datagramTest() Case {
	p := model.Plan{Settings: []model.Setting{{Name: "current"}}, Baseline: "current", Mode: model.FixedBlocks, MaxBlocks: 1,
		Directions: []model.Direction{model.To}, Margin: 3, Tolerance: 5, Confidence: 0.95, Order: [][]string{{"current"}},
		Flow: model.Flow{Engine: "loaded", Direction: model.To, Block: 1472, Duration: 20 * time.Second,
			Lead: time.Second, Params: traffic.Write(probes.Params{Engine: udp.Name,
				Load: traffic.Write(udp.Params{Rate: 500e6, Back: 50e6, Pacing: "clock", Plain: true})})}}
	c := Case{"datagrams", base("20261121T070000-udp1", model.KindTest, p), map[int][]model.Sample{}}
	c.add(1, "current", model.To, 499.4e6)
	r := &c.Session.Runs[0]
	r.Flow = p.Flow
	r.Values = append(r.Values, model.Value{Direction: model.To, Metric: model.LossRatio, Value: 0.0012})
	near, far := &r.Ends[0], &r.Ends[1]
	near.Flows[0].TCP, far.Flows[0].TCP = nil, nil
	near.Flows[0].UDP = &model.UDPSummary{Sent: 849_184, Pacing: "clock", Segmented: true, Gaps: times(23*time.Microsecond, 90),
		Jitter: fact.Unknown[time.Duration]("the receiver tells")}
	far.Flows[0].UDP = &model.UDPSummary{Received: 848_165, Lost: 1019, Duplicates: 2, Reordered: 7, MaxExtent: 3, Coalesced: true,
		Jitter: fact.Known(41*time.Microsecond, "RFC 3550"), Variation: times(90*time.Microsecond, 90)}
	near.Latencies = []model.Latency{
		{Name: "idle udp", Times: times(210*time.Microsecond, 20), Sent: 21},
		{Name: "idle tcp", Times: times(230*time.Microsecond, 20), Sent: 21},
		{Name: "loaded udp", Direction: model.To, Times: times(1400*time.Microsecond, 390), Sent: 400, Lost: 9},
		{Name: "loaded tcp", Direction: model.To, Times: times(1500*time.Microsecond, 399), Sent: 400},
	}
	near.Values = []model.Value{{Direction: model.To, Metric: model.LatencyP50, Value: 0.0014}}
	c.Session.Findings = []model.Finding{{Rule: "B17", Direction: model.To, Host: model.Far, Limit: "socket buffer", Loss: true,
		Share: fact.Known(1.0, "snmp"), Knobs: []model.KnobID{"window"},
		Evidence: "1019 of 1019 lost datagrams found the receiving socket's buffer full: the program did not read in time"}}
	far.Counters = []model.Counter{{Name: "udp_receive_buffer_errors", Value: 1019}, {Name: "nic_rx_missed", Of: "eth0", Value: 3}}
	c.Samples[1] = append(c.Samples[1], model.Sample{Host: model.Far, Metric: "cpu_busy", Of: "cpu1", Length: time.Second, Value: 0.93})
	return c
}

// sweepTest is a sweep with a stall.
func sweepTest() Case {
	p := model.Plan{Settings: []model.Setting{{Name: "current"}}, Baseline: "current", Mode: model.FixedBlocks, MaxBlocks: 1,
		Directions: []model.Direction{model.To}, Confidence: 0.95, Order: [][]string{{"current"}},
		Flow: model.Flow{Engine: "pingpong", Direction: model.To, Points: 3, Params: traffic.Write(sizes.Params{
			Sizes: []units.Bytes{1, 1024, 65536}, Mode: sizes.PingPong, Fresh: true, Spin: true})}}
	c := Case{"sweep", base("20261121T080000-swp1", model.KindSweep, p), map[int][]model.Sample{}}
	c.Session.Runs = []model.Run{{
		Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: "current", Flow: p.Flow, Started: began(), Ended: began().Add(time.Minute),
		State: model.RunValid, Ends: []model.EndReport{{Host: model.Near, Points: []model.Point{
			{Size: 1, Rounds: 1000, Trials: []time.Duration{21000, 21500, 22000}},
			{Size: 1024, Rounds: 900, Trials: []time.Duration{31000, 31500, 32000}},
			{Size: 65536, Stalled: true, Log: []string{"eth0: transmit queue 0 timed out"}},
		}}, {Host: model.Far}},
	}}
	return c
}

// requestTest is a test of requests on a schedule.
func requestTest() Case {
	p := model.Plan{Settings: []model.Setting{{Name: "current"}}, Baseline: "current", Mode: model.FixedBlocks, MaxBlocks: 1,
		Directions: []model.Direction{model.To}, Confidence: 0.95, Order: [][]string{{"current"}},
		Flow: model.Flow{Engine: "reqresp", Direction: model.To, Duration: time.Second, Block: 64,
			Params: traffic.Write(requests.Params{Rate: 1000, Reply: 512, Connect: true, Spin: true})}}
	c := Case{"requests", base("20261121T090000-req1", model.KindTest, p), map[int][]model.Sample{}}
	c.Session.Runs = []model.Run{{
		Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: "current", Flow: p.Flow, Started: began(), Ended: began().Add(time.Second),
		State: model.RunValid, Values: []model.Value{{Direction: model.To, Metric: model.ConnectRate, Value: 1000}}, Ends: []model.EndReport{
			{Host: model.Near, Latencies: []model.Latency{{Name: "request", Direction: model.To, Times: times(180*time.Microsecond, 999), Sent: 1000},
				{Name: "request (service)", Direction: model.To, Times: times(120*time.Microsecond, 999), Sent: 1000}},
				Values: []model.Value{{Direction: model.To, Metric: model.ConnectRate, Value: 1000}}},
			{Host: model.Far},
		}, Warnings: []string{"desk: to: the asking end itself was held up for 12ms, which is part of the latencies"},
	}}
	return c
}

// copyTest is a copy of a file.
func copyTest() Case {
	p := model.Plan{Settings: []model.Setting{{Name: "disk to disk"}}, Baseline: "disk to disk", Mode: model.FixedBlocks, MaxBlocks: 1,
		Directions: []model.Direction{model.To}, Confidence: 0.95, Order: [][]string{{"disk to disk"}},
		Flow: model.Flow{Engine: "filecopy", Direction: model.To, Bytes: 1 << 28, Params: traffic.Write(files.Params{
			Mode: files.Copy, Source: files.OnDisk, Sink: "/srv/share", Direct: true, Sync: true, Plain: true})}}
	c := Case{"copy", base("20261121T100000-cpy1", model.KindCopy, p), map[int][]model.Sample{}}
	c.add(1, "disk to disk", model.To, 640e6)
	c.Session.Runs[0].Flow = p.Flow
	return c
}

// searchTest is a completed search for a rate.
func searchTest() Case {
	p := model.Plan{Mode: model.FixedBlocks, Directions: []model.Direction{model.To}, Confidence: 0.95,
		Flow:   model.Flow{Engine: "udpflow", Direction: model.To, Block: 1472, Duration: time.Second},
		Search: &model.RateSearch{Low: 1e6, High: 900e6, Limit: 0.001, Resolution: 0.02, Repeats: 2}}
	c := Case{"search", base("20261121T110000-srch", model.KindTest, p), map[int][]model.Sample{}}
	for i, t := range []search.Trial{
		{Rate: 900e6, Loss: 0.1}, {Rate: 900e6, Loss: 0.1}, {Rate: 1e6}, {Rate: 800e6}, {Rate: 810e6, Loss: 0.02}, {Rate: 810e6, Loss: 0.02},
		{Rate: 800e6, Loss: 0.0004},
	} {
		c.add(i+1, t.Rate.String(), model.To, float64(t.Rate)*(1-t.Loss))
		r := &c.Session.Runs[i]
		r.Flow = p.Flow
		r.Flow = udp.With(r.Flow, udp.Params{Rate: t.Rate})
		r.Values = append(r.Values, model.Value{Direction: model.To, Metric: model.LossRatio, Value: t.Loss})
		for _, end := range r.Ends {
			for j := range end.Flows {
				end.Flows[j].TCP = nil
				end.Flows[j].Bytes = units.Bytes(float64(t.Rate) * end.Flows[j].Window.Seconds() / 8)
				if sent := int64(float64(t.Rate) * end.Flows[j].Window.Seconds() / 8 / 1472); end.Flows[j].Role == model.Receiver {
					lost := int64(float64(sent) * t.Loss)
					end.Flows[j].UDP = &model.UDPSummary{Received: sent - lost, Lost: lost}
				}
			}
		}
	}
	return c
}
