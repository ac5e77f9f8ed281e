package peer

import (
	"errors"
	"fmt"
	"math"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/iperf3"
)

// report adds this end's results to out, once all threads have ended.
func (t *udpTest) report(out model.EndReport) (model.EndReport, error) {
	last := t.part.Prev.At
	f := model.FlowReport{Direction: t.way.direction, Role: t.way.role, Window: last - t.way.spec.Omit, UDP: &model.UDPSummary{}}
	if !t.open && t.way.spec.Bytes == 0 {
		f.Window = min(f.Window, t.way.spec.Duration)
	}
	var errs []error
	for i, s := range t.streams {
		n := t.judge(s, i, f.UDP)
		f.Streams = append(f.Streams, units.Bytes(n))
		f.Bytes += units.Bytes(n)
		if s.err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", f.Direction, f.Role, s.err))
		}
	}
	out.Flows = []model.FlowReport{f}
	if last < t.way.spec.Omit {
		errs = append(errs, fmt.Errorf("%s %s: ended after %v, before the measured window", f.Direction, f.Role, last))
	}
	return out, errors.Join(errs...)
}

// judge adds the counts of stream i to u, and returns its bytes.
func (t *udpTest) judge(s *udpStream, i int, u *model.UDPSummary) int64 {
	if s.send != nil {
		n := s.send.Sent.Load() - t.sentBefore(i)
		u.Sent += n
		u.Refused += s.send.Refused.Load()
		u.Pacing = s.send.Pacing()
		u.Segmented = u.Segmented || s.send.Segmented()
		return n * int64(t.size)
	}
	u.Received += s.tally.Received
	u.Lost += s.lost()
	u.Duplicates += s.tally.Duplicates
	u.Reordered += s.tally.Reordered
	u.MaxExtent = max(u.MaxExtent, s.tally.MaxExtent)
	u.Coalesced = u.Coalesced || s.receive.Coalesced()
	if j, known := s.tally.Jitter().Get(); known {
		share := j / time.Duration(len(t.streams))
		u.Jitter = fact.Known(u.Jitter.Or(0)+share, "datagrams")
	}
	if v := s.tally.Variation(); u.Variation == nil {
		u.Variation = v
	} else if v != nil {
		// Histograms of one shape always merge.
		_ = u.Variation.Merge(v)
	}
	return s.window
}

// account returns this end's results of each stream for its peer.
func (t *udpTest) account() []iperf3.StreamResult {
	out := make([]iperf3.StreamResult, len(t.streams))
	for i, s := range t.streams {
		out[i].ID = int64(t.way.streams[i].ID)
		if s.send != nil {
			before := t.sentBefore(i)
			out[i].Packets = s.send.Sent.Load()
			out[i].Bytes = (out[i].Packets - before) * int64(t.size)
			out[i].Omitted = fact.Known(iperf3.Omitted{Packets: before}, "count")
			continue
		}
		out[i].Bytes = s.window
		out[i].Jitter = s.theirs.Jitter
		out[i].Errors = int64(min(s.theirs.Errors, math.MaxInt64))
		out[i].Packets = int64(min(s.theirs.Highest, math.MaxInt64))
		out[i].Omitted = fact.Known(iperf3.Omitted{
			Errors: int64(min(s.omitted.Errors, math.MaxInt64)), Packets: int64(min(s.omitted.Highest, math.MaxInt64)),
		}, "count")
	}
	return out
}
