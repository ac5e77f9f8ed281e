package tcpbulk

import (
	"cmp"
	"slices"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/run"
	"linerate/internal/measure/tcpinfo"
)

// sums collects the sender's kernel statistics over the measured window.
type sums struct {
	reason      string // why the kernel reports none, "" if it does
	retransmits fact.Of[int64]
	segments    fact.Of[int64]
	answers     fact.Of[int64]
	busy        fact.Of[time.Duration] // these three: sum over streams
	rwnd        fact.Of[time.Duration]
	sndbuf      fact.Of[time.Duration]
	rttMin      fact.Of[time.Duration]
	rtts        []time.Duration // one per interval and stream
	cwnds       []units.Bytes   // one per interval, sum over streams
	windows     []units.Bytes   // same
}

// maxReserve is the most readings that are allocated in advance.
const maxReserve = 1 << 16

// prepare allocates the readings of n streams.
func (s *sums) prepare(spec model.Flow, n int) {
	intervals := min(int(spec.Duration/spec.Interval)+2, maxReserve)
	s.rtts = make([]time.Duration, 0, min(intervals*n, maxReserve))
	s.cwnds = make([]units.Bytes, 0, intervals)
	s.windows = make([]units.Bytes, 0, intervals)
}

// source is the source of these facts.
const source = "TCP_INFO"

// add adds the interval between two snapshots.
func (s *sums) add(prev, cur []tcpinfo.Info) {
	if s.reason != "" {
		return
	}
	accumulate(&s.retransmits, growth(prev, cur, retransmits))
	accumulate(&s.segments, segments(prev, cur, segmentsOut))
	accumulate(&s.answers, segments(prev, cur, segmentsIn))
	accumulate(&s.busy, growth(prev, cur, busy))
	accumulate(&s.rwnd, growth(prev, cur, rwndLimited))
	accumulate(&s.sndbuf, growth(prev, cur, sndbufLimited))
	for i := range cur {
		if rtt, known := cur[i].RTT.Get(); known {
			s.rtts = append(s.rtts, rtt)
		}
	}
	if least, known := leastRTT(cur).Get(); known {
		s.rttMin = fact.Known(min(least, s.rttMin.Or(least)), source)
	}
	if w, known := total(cur, cwnd).Get(); known {
		s.cwnds = append(s.cwnds, w)
	}
	if w, known := total(cur, peerWindow).Get(); known {
		s.windows = append(s.windows, w)
	}
}

// accumulate adds v to sum; an unknown v adds nothing.
func accumulate[T ~int64](sum *fact.Of[T], v fact.Of[T]) {
	if n, known := v.Get(); known {
		*sum = fact.Known(sum.Or(0)+n, source)
	}
}

// The fields that are summed.
func retransmits(i *tcpinfo.Info) fact.Of[int64]           { return i.Retransmits }
func segmentsOut(i *tcpinfo.Info) fact.Of[int64]           { return i.SegmentsOut }
func segmentsIn(i *tcpinfo.Info) fact.Of[int64]            { return i.SegmentsIn }
func busy(i *tcpinfo.Info) fact.Of[time.Duration]          { return i.Busy }
func rwndLimited(i *tcpinfo.Info) fact.Of[time.Duration]   { return i.RwndLimited }
func sndbufLimited(i *tcpinfo.Info) fact.Of[time.Duration] { return i.SndbufLimited }
func cwnd(i *tcpinfo.Info) fact.Of[units.Bytes]            { return i.Cwnd }
func peerWindow(i *tcpinfo.Info) fact.Of[units.Bytes]      { return i.PeerWindow }

// total sums field over the streams; unknown unless it is known for each.
func total[T ~int64](infos []tcpinfo.Info, field func(*tcpinfo.Info) fact.Of[T]) fact.Of[T] {
	var sum T
	for i := range infos {
		v, known := field(&infos[i]).Get()
		if !known {
			return fact.Of[T]{}
		}
		sum += v
	}
	return fact.Known(sum, source)
}

// growth returns by how much the sum of field grew.
func growth[T ~int64](prev, cur []tcpinfo.Info, field func(*tcpinfo.Info) fact.Of[T]) fact.Of[T] {
	before, known := total(prev, field).Get()
	after, also := total(cur, field).Get()
	if !known || !also {
		return fact.Of[T]{}
	}
	return fact.Known(after-before, source)
}

// segments is growth for segments, which the kernel counts modulo 2^32.
func segments(prev, cur []tcpinfo.Info, field func(*tcpinfo.Info) fact.Of[int64]) fact.Of[int64] {
	var sum int64
	for i := range cur {
		before, known := field(&prev[i]).Get()
		after, also := field(&cur[i]).Get()
		if !known || !also {
			return fact.Of[int64]{}
		}
		sum += int64(uint32(after - before))
	}
	return fact.Known(sum, source)
}

// meanRTT returns the mean round trip of the streams that have one.
func meanRTT(infos []tcpinfo.Info) fact.Of[time.Duration] {
	var sum time.Duration
	n := 0
	for i := range infos {
		if rtt, known := infos[i].RTT.Get(); known {
			sum += rtt
			n++
		}
	}
	if n == 0 {
		return fact.Of[time.Duration]{}
	}
	return fact.Known(sum/time.Duration(n), source)
}

// leastRTT returns the least round trip of any stream.
func leastRTT(infos []tcpinfo.Info) fact.Of[time.Duration] {
	var least fact.Of[time.Duration]
	for i := range infos {
		if rtt, known := infos[i].RTTMin.Get(); known {
			least = fact.Known(min(rtt, least.Or(rtt)), source)
		}
	}
	return least
}

// tell adds the kernel's statistics of an interval.
func (f *flow) tell(add run.Add) {
	if f.sums.reason != "" {
		return
	}
	each := func(m model.Metric, of func(i int) float64) {
		for i := 0; len(f.streams) > 1 && i < len(f.streams); i++ {
			add(m, of(i), run.Stream(i))
		}
	}
	if n, known := growth(f.prev, f.cur, retransmits).Get(); known {
		add(model.Retransmits, float64(n), "")
		each(model.StreamRetransmits, func(i int) float64 {
			return float64(retransmits(&f.cur[i]).Or(0) - retransmits(&f.prev[i]).Or(0))
		})
	}
	for _, t := range []struct {
		metric model.Metric
		rtt    fact.Of[time.Duration]
	}{{model.RTT, meanRTT(f.cur)}, {model.RTTMin, leastRTT(f.cur)}} {
		if rtt, known := t.rtt.Get(); known {
			add(t.metric, rtt.Seconds(), "")
		}
	}
	if w, known := total(f.cur, cwnd).Get(); known {
		add(model.Cwnd, float64(w), "")
		each(model.StreamCwnd, func(i int) float64 { return float64(cwnd(&f.cur[i]).Or(0)) })
	}
	if w, known := total(f.cur, peerWindow).Get(); known {
		add(model.PeerWindow, float64(w), "")
	}
	for _, t := range []struct {
		metric model.Metric
		of     func(*tcpinfo.Info) fact.Of[time.Duration]
	}{{model.BusyTime, busy}, {model.RwndLimited, rwndLimited}, {model.SndbufLimited, sndbufLimited}} {
		if d, known := growth(f.prev, f.cur, t.of).Get(); known {
			add(t.metric, d.Seconds()/float64(len(f.streams)), "")
		}
	}
}

// summary returns the sender's kernel statistics of the measured window. Properties that all
// connections share come from the first one.
func (f *flow) summary() *model.TCPSummary {
	s := &f.sums
	first := f.cur[0]
	n := time.Duration(len(f.streams))
	mean := func(sum fact.Of[time.Duration]) fact.Of[time.Duration] {
		if t, known := sum.Get(); known {
			return fact.Known(t/n, source)
		}
		return because(sum, s.reason)
	}
	out := &model.TCPSummary{
		MSS:           because(first.MSS, s.reason),
		PathMTU:       because(first.PathMTU, s.reason),
		Timestamps:    because(first.Timestamps, s.reason),
		SACK:          because(first.SACK, s.reason),
		ECN:           because(first.ECN, s.reason),
		SendScale:     because(first.SendScale, s.reason),
		RecvScale:     because(first.RecvScale, s.reason),
		Retransmits:   because(s.retransmits, s.reason),
		SegmentsOut:   because(s.segments, s.reason),
		SegmentsIn:    because(s.answers, s.reason),
		Busy:          mean(s.busy),
		RwndLimited:   mean(s.rwnd),
		SndbufLimited: mean(s.sndbuf),
		RTT:           because(median(s.rtts), s.reason),
		RTTMin:        because(s.rttMin, s.reason),
		Cwnd:          because(median(s.cwnds), s.reason),
		PeerWindow:    because(median(s.windows), s.reason),
		SendBuffer:    f.sendBuffer(),
		BBR:           f.belief.summary(),
	}
	for i, s := range f.streams {
		if s.paths != nil && len(s.paths.list) > 1 { // what was read while it had one path is of that path
			now := &f.cur[i]
			out.RTT, out.PeerWindow, out.Busy, out.RwndLimited, out.SndbufLimited = now.RTT, now.PeerWindow, now.Busy, now.RwndLimited, now.SndbufLimited
		}
	}
	name, err := f.streams[0].link.congestion()
	if err != nil {
		out.Congestion = fact.Unknown[string](err.Error())
	} else {
		out.Congestion = fact.Known(name, "TCP_CONGESTION")
	}
	return out
}

// because sets the reason of an unknown fact.
func because[T any](v fact.Of[T], reason string) fact.Of[T] {
	if v.IsKnown() {
		return v
	}
	return fact.Unknown[T](cmp.Or(reason, v.Reason(), "the kernel does not report it"))
}

// sendBuffer returns the sum of the send buffers.
func (f *flow) sendBuffer() fact.Of[units.Bytes] {
	var sum units.Bytes
	for _, s := range f.streams {
		g, err := s.link.granted()
		if err != nil {
			return fact.Unknown[units.Bytes](err.Error())
		}
		b, known := g.SendBuffer.Get()
		if !known {
			return g.SendBuffer
		}
		sum += b
	}
	return fact.Known(sum, "SO_SNDBUF")
}

// median sorts v and returns its median, the mean of the middle two for an even number; unknown
// if v is empty.
func median[T ~int64 | ~float64](v []T) fact.Of[T] {
	if len(v) == 0 {
		return fact.Of[T]{}
	}
	slices.Sort(v)
	low, high := v[(len(v)-1)/2], v[len(v)/2]
	return fact.Known(low+(high-low)/2, source)
}
