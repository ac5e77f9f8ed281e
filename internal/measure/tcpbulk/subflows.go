package tcpbulk

import (
	"net/netip"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/tcpinfo"
)

// subflows collects what the subflows of a Multipath TCP connection carried in the measured
// window. A subflow that has ended keeps its last numbers.
type subflows struct {
	read []tcpinfo.Subflow
	list []subflow
}

type subflow struct {
	last   tcpinfo.Subflow
	bytes  units.Bytes
	resent int64
	rtts   []time.Duration
}

// info returns the sender's kernel statistics of the connection.
func (s *stream) info(within bool) (tcpinfo.Info, error) {
	if s.paths == nil {
		return s.link.info()
	}
	return s.paths.take(s.link, within)
}

// take reads the subflows of l and combines them into one connection; within is true if the
// time since the last reading belongs to the window.
func (s *subflows) take(l link, within bool) (tcpinfo.Info, error) {
	var err error
	if s.read, err = l.subflows(s.read[:0]); err != nil {
		return tcpinfo.Info{}, err
	}
	for _, now := range s.read {
		f := s.of(now.Near, now.Far)
		if rtt, known := now.RTT.Get(); known && within {
			f.rtts = append(f.rtts, rtt)
		}
		if within {
			f.bytes += now.BytesAcked.Or(0) - f.last.BytesAcked.Or(0)
			f.resent += now.Retransmits.Or(0) - f.last.Retransmits.Or(0)
		}
		f.last = now
	}
	s.read = s.read[:0]
	for _, f := range s.list {
		s.read = append(s.read, f.last)
	}
	if len(s.read) == 0 {
		return tcpinfo.Info{}, nil
	}
	return tcpinfo.Together(s.read), nil
}

// of returns the subflow between two addresses, creating it if necessary.
func (s *subflows) of(near, far netip.AddrPort) *subflow {
	for i := range s.list {
		if l := &s.list[i].last; l.Near == near && l.Far == far {
			return &s.list[i]
		}
	}
	s.list = append(s.list, subflow{last: tcpinfo.Subflow{Near: near, Far: far}})
	return &s.list[len(s.list)-1]
}

// paths returns the subflows of all streams, for the report.
func (f *flow) paths() []model.Subflow {
	var out []model.Subflow
	for i, s := range f.streams {
		if s.paths == nil {
			continue
		}
		for _, p := range s.paths.list {
			out = append(out, model.Subflow{
				Stream: i + 1, From: p.last.Near.Addr().String(), To: p.last.Far.Addr().String(),
				Bytes: p.bytes, RTT: because(median(p.rtts), ""), Retransmits: p.resent,
			})
		}
	}
	return out
}
