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
		Udp: encodeUDPFlow(f.UDP), Sweep: encodeSweep(f.Sweep), Requests: encodeRequests(f.Requests),
		Loaded: encodeLoaded(f.Loaded), Copy: encodeCopy(f.Copy),
	}
}

func decodeFlow(c *check, p *sessionpb.Flow) model.Flow {
	f := model.Flow{
		Engine: p.GetEngine(), Direction: word(c, "direction", directions, p.GetDirection(), model.To, model.From, model.Both),
		Streams: int(p.GetStreams()), Duration: time.Duration(p.GetDurationNs()), Bytes: units.Bytes(p.GetBytes()),
		Omit: time.Duration(p.GetOmitNs()), Interval: time.Duration(p.GetIntervalNs()),
		Block: units.Bytes(p.GetBlock()), Window: units.Bytes(p.GetWindow()), MSS: int(p.GetMss()),
		Nagle: p.GetNagle(), Congestion: p.GetCongestion(),
	}
	if u := p.GetUdp(); u != nil {
		f.UDP = &model.UDPFlow{Rate: units.BitRate(u.GetRate()), Pacing: u.GetPacing(), Plain: u.GetPlain()}
	}
	if s := p.GetSweep(); s != nil {
		f.Sweep = decodeSweep(c, s)
	}
	if r := p.GetRequests(); r != nil {
		f.Requests = &model.Requests{Rate: r.GetRate(), Reply: units.Bytes(r.GetReply()), Connect: r.GetConnect(), Spin: r.GetSpin()}
	}
	if l := p.GetLoaded(); l != nil {
		f.Loaded = &model.Loaded{Engine: l.GetEngine(), Idle: time.Duration(l.GetIdleNs())}
	}
	if v := p.GetCopy(); v != nil {
		f.Copy = &model.Copy{
			Mode: v.GetMode(), Source: v.GetSource(), Sink: v.GetSink(),
			Direct: v.GetDirect(), Sync: v.GetSync(), Plain: v.GetPlain(),
		}
	}
	c.flow(f)
	return f
}

func encodeUDPFlow(u *model.UDPFlow) *sessionpb.UDPFlow {
	if u == nil {
		return nil
	}
	return &sessionpb.UDPFlow{Rate: float64(u.Rate), Pacing: u.Pacing, Plain: u.Plain}
}

func encodeSweep(s *model.Sweep) *sessionpb.Sweep {
	if s == nil {
		return nil
	}
	p := &sessionpb.Sweep{Mode: s.Mode, Fresh: s.Fresh, Spin: s.Spin}
	for _, n := range s.Sizes {
		p.Sizes = append(p.Sizes, int64(n))
	}
	return p
}

func decodeSweep(c *check, p *sessionpb.Sweep) *model.Sweep {
	c.count("sizes of a sweep", len(p.GetSizes()), MaxPoints)
	if c.err != nil {
		return nil
	}
	s := &model.Sweep{Mode: p.GetMode(), Fresh: p.GetFresh(), Spin: p.GetSpin()}
	for _, n := range p.GetSizes() {
		s.Sizes = append(s.Sizes, units.Bytes(n))
	}
	return s
}

func encodeRequests(r *model.Requests) *sessionpb.Requests {
	if r == nil {
		return nil
	}
	return &sessionpb.Requests{Rate: r.Rate, Reply: int64(r.Reply), Connect: r.Connect, Spin: r.Spin}
}

func encodeLoaded(l *model.Loaded) *sessionpb.Loaded {
	if l == nil {
		return nil
	}
	return &sessionpb.Loaded{Engine: l.Engine, IdleNs: int64(l.Idle)}
}

func encodeCopy(v *model.Copy) *sessionpb.Copy {
	if v == nil {
		return nil
	}
	return &sessionpb.Copy{Mode: v.Mode, Source: v.Source, Sink: v.Sink, Direct: v.Direct, Sync: v.Sync, Plain: v.Plain}
}
