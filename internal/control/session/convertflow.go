package session

import (
	"time"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

func encodeFlow(f model.Flow) *sessionpb.Flow {
	return &sessionpb.Flow{
		Engine: f.Engine, Direction: directions[f.Direction], Streams: uint32(f.Streams),
		DurationNs: int64(f.Duration), Bytes: int64(f.Bytes), OmitNs: int64(f.Omit), IntervalNs: int64(f.Interval),
		Block: int64(f.Block), Window: int64(f.Window), Mss: uint32(f.MSS), Nagle: f.Nagle, Congestion: f.Congestion,
		LeadNs: int64(f.Lead), Points: uint32(f.Points), Params: string(f.Params),
	}
}

func decodeFlow(c *check, p *sessionpb.Flow) model.Flow {
	f := model.Flow{
		Engine: p.GetEngine(), Direction: word(c, "direction", directions, p.GetDirection(), model.To, model.From, model.Both),
		Streams: int(p.GetStreams()), Duration: time.Duration(p.GetDurationNs()), Bytes: units.Bytes(p.GetBytes()),
		Omit: time.Duration(p.GetOmitNs()), Interval: time.Duration(p.GetIntervalNs()),
		Block: units.Bytes(p.GetBlock()), Window: units.Bytes(p.GetWindow()), MSS: int(p.GetMss()),
		Nagle: p.GetNagle(), Congestion: p.GetCongestion(),
		Lead: time.Duration(p.GetLeadNs()), Points: int(p.GetPoints()), Params: model.Params(p.GetParams()),
	}
	c.flow(f)
	return f
}
