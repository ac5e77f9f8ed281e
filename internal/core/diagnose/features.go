package diagnose

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// features is dimensionless evidence, for comparison with thresholds. A share that is not
// measured is unknown, never 0.
type features struct {
	Evidence
	full    fact.Of[float64] // goodput over the ceiling
	idle    fact.Of[float64] // share of the window in which the sender had nothing to send
	rwnd    fact.Of[float64] // share of the sender's busy time limited by the receive window
	sndbuf  fact.Of[float64] // and by the send buffer
	queue   fact.Of[float64] // round trip under load over the least one
	spread  fact.Of[float64] // standard deviation over mean of the rate in the intervals
	growth  fact.Of[float64] // rate of the last third of the run over the first
	peak    fact.Of[float64] // best interval over the ceiling
	others  fact.Of[float64] // mean of the intervals without the slowest one, or two neighbours, over the ceiling
	resent  fact.Of[float64] // retransmitted segments over all, in the measured window
	events  fact.Of[float64] // loss events that slowed the sender down, over all segments
	signs   fact.Of[int64]   // of reordering: how often a slowdown was undone as needless
	slowed  fact.Of[int64]   // how often the sender slowed down, for any reason
	trips   fact.Of[float64] // length of the run in bandwidth-delay products of the ceiling
	begun   fact.Of[float64] // length of the connection over the time that slow start needs to fill the path
	least   time.Duration    // least round trip of all samples under load; 0 if unknown
	nearRTT time.Duration    // least round trip; 0 if unknown
}

// newFeatures derives the features from e.
func newFeatures(e Evidence) features {
	f := features{Evidence: e}
	if c, ok := e.Ceiling.Get(); ok && c > 0 {
		f.full = fact.Known(float64(e.Goodput/c), "goodput over ceiling")
	}
	if busy, ok := e.TCP.Busy.Get(); ok && e.Window > 0 {
		f.idle = fact.Known(max(0, 1-float64(busy)/float64(e.Window)), "TCP_INFO busy_time")
	}
	if v, ok := e.TCP.Share(e.TCP.RwndLimited); ok {
		f.rwnd = fact.Known(v, "TCP_INFO rwnd_limited over busy_time")
	}
	if v, ok := e.TCP.Share(e.TCP.SndbufLimited); ok {
		f.sndbuf = fact.Known(v, "TCP_INFO sndbuf_limited over busy_time")
	}
	f.nearRTT = e.RTT.Or(e.TCP.RTTMin.Or(0))
	if rtt, ok := e.TCP.RTT.Get(); ok && f.nearRTT > 0 {
		f.queue = fact.Known(float64(rtt)/float64(f.nearRTT), "TCP_INFO rtt over min_rtt")
	}
	if c, ok := e.Ceiling.Get(); ok && f.nearRTT > 0 && e.Window > 0 && e.Goodput > 0 {
		bytes := float64(e.Goodput) / 8 * e.Window.Seconds()
		held := float64(max(1, limits.WindowFor(c, f.nearRTT)))
		f.trips = fact.Known(bytes/held, "bytes over bandwidth-delay product")
		if e.Run != nil {
			f.begun = fact.Known((e.Run.Flow.Omit+e.Window).Seconds()/limits.Fill(c, f.nearRTT, e.TCP.MSS.Or(fullMSS)).Seconds(), "length of the test over that of slow start")
		}
	}
	f.rates()
	f.losses()
	return f
}

// rates evaluates the rate and the round trip in the intervals of the run.
func (f *features) rates() {
	if trips := f.Sampled(f.Sender.Host, model.RTT); len(trips) >= fewSamples {
		least := slices.MinFunc(trips, func(a, b model.Sample) int { return cmp.Compare(a.Value, b.Value) })
		f.least = seconds(least.Value)
	}
	var rates []float64
	for _, s := range f.Sampled(f.Receiver.Host, model.Goodput) {
		if s.Length > 0 {
			rates = append(rates, s.Value)
		}
	}
	if len(rates) < fewSamples {
		return
	}
	mean := stats.Mean(rates)
	if !(mean > 0) {
		return
	}
	var sum float64
	for _, r := range rates {
		sum += (r - mean) * (r - mean)
	}
	f.spread = fact.Known(math.Sqrt(sum/float64(len(rates)))/mean, "rate in the intervals")
	third := max(1, len(rates)/3)
	// An interval shorter than a round trip may hold nothing at all.
	first := max(stats.Mean(rates[:third]), mean/float64(len(rates)))
	f.growth = fact.Known(stats.Mean(rates[len(rates)-third:])/first, "rate in the intervals")
	if c, ok := f.Ceiling.Get(); ok && c > 0 {
		f.peak = fact.Known(slices.Max(rates)/float64(c), "best interval over ceiling")
		sum, most := mean*float64(len(rates)), 0.0
		for i, slow := range rates {
			most = max(most, (sum-slow)/float64(len(rates)-1))
			if i > 0 && len(rates) >= 4 { // a pause may fall into two
				most = max(most, (sum-slow-rates[i-1])/float64(len(rates)-2))
			}
		}
		f.others = fact.Known(most/float64(c), "all intervals but the slowest, or two, over ceiling")
	}
}

// The counters of package counters for how often a sender slowed down, and how often that proved
// needless.
func slowedCounters() []string {
	return []string{"tcp_recoveries", "tcp_recoveries_without_sack", "tcp_timeouts"}
}

// The counters of reordering itself are left out: each loss that SACK repairs makes holes that
// fill late, and Linux counts those as reordering (33 at 18 losses on a path that keeps the
// order).
func needlessCounters() []string {
	return []string{"tcp_undone_whole", "tcp_undone_early", "tcp_undone_by_duplicates", "tcp_undone_timeouts", "tcp_spurious_timeouts"}
}

// losses counts loss events: one for each time that the sender slowed down (diagnosis.md
// section 4.0, rule 3).
func (f *features) losses() {
	again, ok1 := f.TCP.Retransmits.Get()
	out, ok2 := f.TCP.SegmentsOut.Get()
	if ok1 && ok2 && out > 0 {
		f.resent = fact.Known(float64(again)/float64(out), "TCP_INFO total_retrans over segs_out")
	}
	f.slowed = f.Sender.Counters.Sum(slowedCounters()...)
	f.signs = f.Sender.Counters.Sum(needlessCounters()...)
	all := f.Sender.Counters.Sum("tcp_out_segments", "tcp_retransmitted")
	n, ok := f.slowed.Get()
	if total := all.Or(0); ok && total > 0 {
		f.events = fact.Known(float64(n)/float64(total), "recoveries and timeouts over segments")
	}
}

// bound returns the rate that a window allows.
func (f features) bound(window units.Bytes) fact.Of[units.BitRate] {
	rtt := f.TCP.RTT.Or(f.nearRTT)
	if rtt <= 0 || window <= 0 {
		return fact.Unknown[units.BitRate]("the round trip or the window is unknown")
	}
	return fact.Known(limits.WindowBound(window, rtt), "window over round trip")
}

// explainedBy returns the share of the gap between the measured rate and the ceiling that a
// bound explains: all of it if the bound is the measured rate, none if it is the ceiling.
func (f features) explainedBy(bound units.BitRate) fact.Of[float64] {
	c, ok := f.Ceiling.Get()
	if !ok || c <= f.Goodput {
		return fact.Unknown[float64]("the ceiling is unknown, or there is no gap")
	}
	return fact.Known(min(1, max(0, float64((c-max(bound, f.Goodput))/(c-f.Goodput)))), "gap between bound and ceiling")
}

// explainedByTime returns the share of the gap that closes if the lost share of the time is
// used like the rest.
func (f features) explainedByTime(lost float64) fact.Of[float64] {
	if lost >= 1 {
		return f.explainedBy(f.Goodput)
	}
	return fact.Known(1-f.explainedBy(f.Goodput/units.BitRate(1-max(0, lost))).Or(1), "time that was lost")
}

// onlyWithCeiling returns v, or unknown if the ceiling is unknown.
func (f features) onlyWithCeiling(v fact.Of[float64]) fact.Of[float64] {
	if !f.Ceiling.IsKnown() {
		return fact.Unknown[float64]("the ceiling is unknown: " + f.Ceiling.Reason())
	}
	return v
}

// paced reports whether the congestion control sends at its own rate and does not slow down for
// single losses, so that no loss formula applies.
func (f features) paced() bool {
	name := f.TCP.Congestion.Or("")
	return strings.HasPrefix(name, "bbr") || strings.HasPrefix(name, "BBR")
}

// pathBound reports whether the sender always had data and neither window nor buffer limited
// it: the limit is the path, or what TCP makes of it.
func (f features) pathBound() bool {
	idle, ok := f.idle.Get()
	return ok && idle < idleShare && f.rwnd.Or(0) < limitedShare && f.sndbuf.Or(0) < limitedShare
}

// Sum adds counters up; unknown if the group of any of them was not read.
func (c Counters) Sum(names ...string) fact.Of[int64] {
	var sum int64
	for _, n := range names {
		v, ok := c.Moved(n).Get()
		if !ok {
			return c.Moved(n)
		}
		sum += v
	}
	return fact.Known(sum, strings.Join(names, ", "))
}
