package session

import (
	"time"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// maxCPUTime bounds CPU time: all CPUs busy for the longest run.
const maxCPUTime = maxCPUs * MaxDuration

func encodeEvent(e Event) *sessionpb.RunResponse {
	switch e.Kind {
	case Ready:
		return &sessionpb.RunResponse{Event: &sessionpb.RunResponse_Ready{Ready: &sessionpb.Ready{Warnings: cleanAll(e.Warnings)}}}
	case Samples:
		var list []*sessionpb.Sample
		for _, s := range e.Samples {
			list = append(list, &sessionpb.Sample{
				Direction: directions[s.Direction], Metric: string(s.Metric), StartNs: int64(s.Start),
				LengthNs: int64(s.Length), Value: s.Value, Omitted: s.Omitted,
			})
		}
		return &sessionpb.RunResponse{Event: &sessionpb.RunResponse_Samples{Samples: &sessionpb.Samples{Samples: list}}}
	case Measured:
		return &sessionpb.RunResponse{Event: &sessionpb.RunResponse_Measured{Measured: &sessionpb.Measured{}}}
	case Result:
		return &sessionpb.RunResponse{Event: &sessionpb.RunResponse_Result{Result: encodeReport(e.Report)}}
	default:
		panic("session: event without a kind")
	}
}

func decodeEvent(c *check, p *sessionpb.RunResponse, h model.Host) Event {
	switch e := p.GetEvent().(type) {
	case *sessionpb.RunResponse_Ready:
		return Event{Kind: Ready, Warnings: c.texts("warnings", e.Ready.GetWarnings(), MaxWarnings)}
	case *sessionpb.RunResponse_Samples:
		return Event{Kind: Samples, Samples: decodeSamples(c, e.Samples.GetSamples(), h)}
	case *sessionpb.RunResponse_Measured:
		return Event{Kind: Measured}
	case *sessionpb.RunResponse_Result:
		return Event{Kind: Result, Report: decodeReport(c, e.Result, h)}
	default:
		c.fail("an event of a run is empty")
		return Event{}
	}
}

func decodeSamples(c *check, list []*sessionpb.Sample, h model.Host) []model.Sample {
	c.count("samples", len(list), MaxSamples)
	c.that(len(list) > 0, "no samples")
	if c.err != nil {
		return nil
	}
	out := make([]model.Sample, 0, len(list))
	for _, p := range list {
		out = append(out, model.Sample{
			Host: h, Direction: word(c, "direction of a sample", directions, p.GetDirection(), "", model.To, model.From),
			Metric: model.Metric(c.name("metric", p.GetMetric())),
			Start:  c.duration("start of a sample", p.GetStartNs(), 0, MaxDuration),
			Length: c.duration("length of a sample", p.GetLengthNs(), 0, MaxDuration),
			Value:  c.finite("value of a sample", p.GetValue()), Omitted: p.GetOmitted(),
		})
	}
	return out
}

func encodeReport(r model.EndReport) *sessionpb.EndReport {
	p := &sessionpb.EndReport{
		CpuUserNs: int64(r.CPUUser), CpuSystemNs: int64(r.CPUSystem), CpuWindowNs: int64(r.CPUWindow),
		SystemBusy: encodeReal(r.SystemBusy), Waiting: clean(r.Waiting, MaxName), Warnings: cleanAll(r.Warnings),
	}
	for _, f := range r.Flows {
		flow := &sessionpb.FlowReport{
			Direction: directions[f.Direction], Role: roles[f.Role], Bytes: int64(f.Bytes), WindowNs: int64(f.Window),
			Tcp: encodeTCP(f.TCP),
		}
		for _, n := range f.Streams {
			flow.Streams = append(flow.Streams, int64(n))
		}
		p.Flows = append(p.Flows, flow)
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
	return r
}

func decodeFlowReport(c *check, p *sessionpb.FlowReport) model.FlowReport {
	f := model.FlowReport{
		Direction: word(c, "direction of a report", directions, p.GetDirection(), model.To, model.From),
		Role:      word(c, "role", roles, p.GetRole()),
		Bytes:     units.Bytes(c.atMost("bytes", p.GetBytes(), maxBytes)),
		Window:    c.duration("window of a report", p.GetWindowNs(), 0, MaxDuration),
		TCP:       decodeTCP(c, p.GetTcp()),
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

func encodeTCP(t *model.TCPSummary) *sessionpb.TCPSummary {
	if t == nil {
		return nil
	}
	return &sessionpb.TCPSummary{
		Congestion: encodeText(t.Congestion), Mss: encodeNumber(t.MSS), PathMtu: encodeNumber(t.PathMTU),
		Timestamps: encodeTruth(t.Timestamps), Sack: encodeTruth(t.SACK),
		SendScale: encodeNumber(t.SendScale), RecvScale: encodeNumber(t.RecvScale),
		Retransmits: encodeNumber(t.Retransmits), SegmentsOut: encodeNumber(t.SegmentsOut),
		Busy: encodeNumber(t.Busy), RwndLimited: encodeNumber(t.RwndLimited), SndbufLimited: encodeNumber(t.SndbufLimited),
		Rtt: encodeNumber(t.RTT), RttMin: encodeNumber(t.RTTMin), Cwnd: encodeNumber(t.Cwnd),
		PeerWindow: encodeNumber(t.PeerWindow), SendBuffer: encodeNumber(t.SendBuffer),
	}
}

func decodeTCP(c *check, p *sessionpb.TCPSummary) *model.TCPSummary {
	if p == nil {
		return nil
	}
	return &model.TCPSummary{
		Congestion:    decodeText(c, "congestion", p.GetCongestion()),
		MSS:           decodeNumber[int](c, "mss", p.GetMss()),
		PathMTU:       decodeNumber[int](c, "path mtu", p.GetPathMtu()),
		Timestamps:    decodeTruth(c, "timestamps", p.GetTimestamps()),
		SACK:          decodeTruth(c, "sack", p.GetSack()),
		SendScale:     decodeNumber[int](c, "send scale", p.GetSendScale()),
		RecvScale:     decodeNumber[int](c, "receive scale", p.GetRecvScale()),
		Retransmits:   decodeNumber[int64](c, "retransmits", p.GetRetransmits()),
		SegmentsOut:   decodeNumber[int64](c, "segments out", p.GetSegmentsOut()),
		Busy:          decodeNumber[time.Duration](c, "busy time", p.GetBusy()),
		RwndLimited:   decodeNumber[time.Duration](c, "receive window limited time", p.GetRwndLimited()),
		SndbufLimited: decodeNumber[time.Duration](c, "send buffer limited time", p.GetSndbufLimited()),
		RTT:           decodeNumber[time.Duration](c, "rtt", p.GetRtt()),
		RTTMin:        decodeNumber[time.Duration](c, "least rtt", p.GetRttMin()),
		Cwnd:          decodeNumber[units.Bytes](c, "congestion window", p.GetCwnd()),
		PeerWindow:    decodeNumber[units.Bytes](c, "peer window", p.GetPeerWindow()),
		SendBuffer:    decodeNumber[units.Bytes](c, "send buffer", p.GetSendBuffer()),
	}
}
