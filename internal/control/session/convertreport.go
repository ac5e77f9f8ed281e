package session

import (
	"time"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/hist"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// maxCPUTime bounds CPU time: all CPUs busy for the longest run.
const maxCPUTime = maxCPUs * MaxDuration

func encodeReport(r model.EndReport) *sessionpb.EndReport {
	p := &sessionpb.EndReport{
		CpuUserNs: int64(r.CPUUser), CpuSystemNs: int64(r.CPUSystem), CpuWindowNs: int64(r.CPUWindow),
		SystemBusy: encodeReal(r.SystemBusy), Waiting: clean(r.Waiting, MaxName), Warnings: cleanAll(r.Warnings),
	}
	for _, f := range r.Flows {
		flow := &sessionpb.FlowReport{
			Direction: directions[f.Direction], Role: roles[f.Role], Bytes: int64(f.Bytes), WindowNs: int64(f.Window),
			Tcp: encodeTCP(f.TCP), Udp: encodeUDP(f.UDP),
		}
		for _, n := range f.Streams {
			flow.Streams = append(flow.Streams, int64(n))
		}
		p.Flows = append(p.Flows, flow)
	}
	for _, v := range r.Values {
		p.Values = append(p.Values, &sessionpb.Value{
			Direction: directions[v.Direction], Metric: clean(string(v.Metric), MaxName), Value: v.Value,
		})
	}
	for _, l := range r.Latencies {
		p.Latencies = append(p.Latencies, &sessionpb.Latency{
			Name: clean(l.Name, MaxName), Direction: directions[l.Direction], Times: encodeHistogram(l.Times),
			Sent: l.Sent, Lost: l.Lost,
		})
	}
	for _, v := range r.Points {
		point := &sessionpb.Point{Size: int64(v.Size), Rounds: v.Rounds, Stalled: v.Stalled, Log: cleanAll(v.Log)}
		for _, d := range v.Trials {
			point.Trials = append(point.Trials, int64(d))
		}
		p.Points = append(p.Points, point)
	}
	for _, v := range r.Counters[:min(len(r.Counters), MaxCounters)] {
		p.Counters = append(p.Counters, &sessionpb.Counter{Name: clean(v.Name, MaxName), Of: clean(v.Of, MaxName), Value: v.Value})
	}
	return p
}

func decodeReport(c *check, p *sessionpb.EndReport, h model.Host) model.EndReport {
	r := model.EndReport{
		Host:       h,
		CPUUser:    c.duration("CPU time", p.GetCpuUserNs(), 0, maxCPUTime),
		CPUSystem:  c.duration("CPU time", p.GetCpuSystemNs(), 0, maxCPUTime),
		CPUWindow:  c.duration("window of CPU time", p.GetCpuWindowNs(), 0, MaxDuration),
		SystemBusy: decodeReal[float64](c, "busy cores", p.GetSystemBusy()),
		Waiting:    c.text("way of waiting", p.GetWaiting(), MaxName),
		Warnings:   c.texts("warnings", p.GetWarnings(), MaxWarnings),
	}
	c.count("flows of a report", len(p.GetFlows()), 4) // sender and receiver of two directions
	if c.err != nil {
		return model.EndReport{}
	}
	for _, f := range p.GetFlows() {
		r.Flows = append(r.Flows, decodeFlowReport(c, f))
	}
	r.Values = decodeList(c, "values of a report", p.GetValues(), maxValues, decodeValue)
	r.Latencies = decodeList(c, "latencies of a report", p.GetLatencies(), maxLatencies, decodeLatency)
	r.Points = decodeList(c, "sizes of a sweep", p.GetPoints(), MaxPoints, decodePoint)
	r.Counters = decodeList(c, "counters of a report", p.GetCounters(), MaxCounters, decodeCounter)
	return r
}

// decodeList decodes each of at most most messages; none are nil.
func decodeList[P, M any](c *check, field string, list []P, most int, decode func(*check, P) M) []M {
	c.count(field, len(list), most)
	if c.err != nil || len(list) == 0 {
		return nil
	}
	out := make([]M, 0, len(list))
	for _, p := range list {
		out = append(out, decode(c, p))
	}
	return out
}

func decodeValue(c *check, p *sessionpb.Value) model.Value {
	return model.Value{
		Direction: word(c, "direction of a value", directions, p.GetDirection(), "", model.To, model.From),
		Metric:    model.Metric(c.name("metric", p.GetMetric())), Value: c.finite("value of a metric", p.GetValue()),
	}
}

func decodeLatency(c *check, p *sessionpb.Latency) model.Latency {
	l := model.Latency{
		Name:      c.name("name of a latency", p.GetName()),
		Direction: word(c, "direction of a latency", directions, p.GetDirection()),
		Times:     decodeHistogram(c, "times", p.GetTimes()),
		Sent:      c.atMost("probes sent", p.GetSent(), maxBytes),
	}
	l.Lost = c.atMost("probes lost", p.GetLost(), l.Sent)
	return l
}

func decodePoint(c *check, p *sessionpb.Point) model.Point {
	v := model.Point{
		Size: units.Bytes(c.atMost("size of a message", p.GetSize(), maxBlock)), Rounds: c.atMost("rounds", p.GetRounds(), maxBytes),
		Stalled: p.GetStalled(), Log: c.texts("kernel messages", p.GetLog(), MaxWarnings),
	}
	v.Trials = decodeList(c, "trials of a size", p.GetTrials(), maxTrials, func(c *check, ns int64) time.Duration {
		return c.duration("time of a trial", ns, 0, MaxDuration)
	})
	return v
}

func decodeCounter(c *check, p *sessionpb.Counter) model.Counter {
	return model.Counter{
		Name: c.name("name of a counter", p.GetName()), Of: c.text("part of the host", p.GetOf(), MaxName),
		Value: c.atMost("counter", p.GetValue(), maxBytes),
	}
}

// encodeHistogram returns nil for no histogram, and for one that cannot be sent.
func encodeHistogram(h *hist.Histogram) []byte {
	if h == nil {
		return nil
	}
	b, err := h.MarshalBinary()
	if err != nil || len(b) > maxHistogram {
		return nil
	}
	return b
}

func decodeHistogram(c *check, field string, b []byte) *hist.Histogram {
	c.count(field, len(b), maxHistogram)
	if c.err != nil || len(b) == 0 {
		return nil
	}
	h := new(hist.Histogram)
	if err := h.UnmarshalBinary(b); err != nil {
		c.fail("%s: %v", field, err)
		return nil
	}
	return h
}

func decodeFlowReport(c *check, p *sessionpb.FlowReport) model.FlowReport {
	f := model.FlowReport{
		Direction: word(c, "direction of a report", directions, p.GetDirection(), model.To, model.From),
		Role:      word(c, "role", roles, p.GetRole()),
		Bytes:     units.Bytes(c.atMost("bytes", p.GetBytes(), maxBytes)),
		Window:    c.duration("window of a report", p.GetWindowNs(), 0, MaxDuration),
		TCP:       decodeTCP(c, p.GetTcp()),
		UDP:       decodeUDP(c, p.GetUdp()),
	}
	c.count("streams of a report", len(p.GetStreams()), MaxStreams)
	if c.err != nil {
		return model.FlowReport{}
	}
	for _, n := range p.GetStreams() {
		f.Streams = append(f.Streams, units.Bytes(c.atMost("bytes of a stream", n, maxBytes)))
	}
	return f
}
