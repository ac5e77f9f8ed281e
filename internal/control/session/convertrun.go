package session

import (
	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/model"
)

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
				Of: clean(s.Of, MaxName),
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
			Of: c.text("part of the host", p.GetOf(), MaxName),
		})
	}
	return out
}
