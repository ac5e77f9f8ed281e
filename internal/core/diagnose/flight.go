package diagnose

import (
	"cmp"
	"math"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// The constants of CUBIC (RFC 9438 sections 4.2, 4.3 and 4.6). Reno halves its window and adds
// a segment per round trip (RFC 5681 section 3.1).
const (
	cubicC    = 0.4   // segments per cubed second
	cubicBeta = 0.7   // of the window that remains after a loss
	cubicAdds = 0.529 // least segments added per round trip: 3 (1 - 0.7) / (1 + 0.7)
)

// moment is the state of the sender's kernel at the end of an interval of the run.
type moment struct {
	model.Sample         // times
	trip         float64 // smoothed round trip, in seconds
	window       float64 // congestion window, in segments
	again        float64 // segments retransmitted in the interval
	rate         float64 // received rate
}

// moments returns the moments of the run, the warm-up included.
func (f features) moments() []moment {
	at := map[time.Duration]*moment{}
	var out []moment
	segment := float64(max(1, f.TCP.MSS.Or(1448)))
	for _, s := range f.Samples {
		if s.Host != f.Sender.Host || s.Direction != f.Direction {
			continue
		}
		if at[s.Start] == nil {
			at[s.Start] = &moment{Sample: s}
		}
		m := at[s.Start]
		if s.Metric == model.RTT {
			m.trip = s.Value
		}
		if s.Metric == model.Cwnd {
			m.window = s.Value / segment
		}
		if s.Metric == model.Retransmits {
			m.again = s.Value
		}
	}
	for _, m := range at {
		if m.trip > 0 && m.window > 0 {
			out = append(out, *m)
		}
	}
	slices.SortFunc(out, func(a, b moment) int { return cmp.Compare(a.Start, b.Start) })
	for i := range out {
		for _, s := range f.Samples { // the intervals of the two ends are offset by the one-way delay
			if s.Host == f.Receiver.Host && s.Direction == f.Direction && s.Metric == model.Goodput && (s.Start-out[i].Start).Abs() < out[i].Length/2 {
				out[i].rate = s.Value
			}
		}
	}
	return out
}

// flight is what follows from the losses of a run that are all isolated.
type flight struct {
	alone     int           // losses of one or a few segments on a path that was not full
	last      time.Duration // time of the last of them, before the end
	explained float64       // share of the missing rate, from the first loss on
	predicted units.BitRate // mean over the window
	rising    bool          // the window has not recovered at the end
}

// replay computes how the congestion control reacts to the losses of the run, which are known
// to the interval: from the window just after a loss, its own growth.
func (f features) replay(all []moment) (flight, bool) {
	var out flight
	segment, ceiling, held := float64(max(1, f.TCP.MSS.Or(1448)))*8, float64(f.Ceiling.Or(0)), f.held()
	left := 0.5
	if f.TCP.Congestion.Or("") == "cubic" {
		left = cubicBeta
	}
	most, window, since, origin := 0.0, 0.0, 0.0, 0.0
	var sum, length, missing, after float64
	for i, m := range all {
		took, before := m.Length.Seconds(), window
		rate := m.rate
		switch {
		case m.again > 0:
			queued := max(m.trip, all[max(0, i-1)].trip) >= standing*f.nearRTT.Seconds()
			if m.again <= fewSigns && !queued && (m.window/left < nearlyFull*held || most >= stands*f.nearRTT.Seconds()) {
				out.alone++
				out.last = 0
				if before > 0 {
					rate = min(ceiling, (before+m.window)/2*segment/m.trip)
				}
			} else if out.alone > 0 {
				return flight{}, false // the queue was full then
			}
			window, since, origin = m.window, 0, m.window/left
		case window > 0:
			since += took
			window += f.grown(origin, since, took, m.trip)
			rate = min(ceiling, (before+window)/2*segment/m.trip)
		}
		most = max(most, m.trip)
		if out.alone > 0 {
			out.last += m.Length
		}
		if !m.Omitted {
			sum, length, missing = sum+rate*took, length+took, missing+max(0, ceiling-rate)*took
			if out.alone > 0 {
				after += max(0, ceiling-rate) * took
			}
		}
	}
	if out.alone == 0 || length <= 0 || missing <= 0 {
		return flight{}, false
	}
	out.predicted, out.explained, out.rising = units.BitRate(sum/length), after/missing, window < nearlyFull*held
	return out, true
}

// grown returns by how many segments a window grows in took seconds that end since seconds
// after the loss that reduced it from origin.
func (f features) grown(origin, since, took, trip float64) float64 {
	if f.TCP.Congestion.Or("") != "cubic" {
		return took / trip
	}
	k := math.Cbrt(origin * (1 - cubicBeta) / cubicC)
	at := func(t float64) float64 { return cubicC * (t - k) * (t - k) * (t - k) }
	return max(cubicAdds*took/trip, at(since)-at(since-took))
}

// mended returns the time from a loss until the congestion window again holds what the path
// does.
func (f features) mended() time.Duration {
	if f.TCP.Congestion.Or("") == "cubic" {
		return seconds(math.Cbrt(f.held() * (1 - cubicBeta) / cubicC))
	}
	return time.Duration(f.held() / 2 * float64(f.nearRTT))
}

// longQueue reports whether at times so many packets waited on the path that its queue is not
// short, whatever was lost: with a queue of half a round trip Reno loses an eighth.
func (f features) longQueue() bool {
	return slices.ContainsFunc(f.Samples, func(s model.Sample) bool {
		return s.Host == f.Sender.Host && s.Direction == f.Direction && s.Metric == model.RTT && f.nearRTT > 0 && s.Value >= stands*f.nearRTT.Seconds()
	})
}

// singleLosses is rule B10 for losses too few for any formula of their share, each of which
// takes longer to recover from than the test lasts (diagnosis-2.md section 8).
func singleLosses(f features) (*finding, bool) {
	name := f.TCP.Congestion.Or("")
	if name != "reno" && name != "cubic" || f.Streams > 1 || !f.pathBound() || f.full.Or(1) >= nearlyFull || f.held() <= 0 || f.nearRTT <= 0 || f.reorders() || f.inBursts() || f.together() {
		return nil, false
	}
	r, ok := f.replay(f.moments())
	if !ok || r.alone > fewLosses || !r.rising || r.explained < halfTheGap || r.last >= f.mended() ||
		math.Abs(float64(r.predicted-f.Goodput)) > replayed*float64(f.Goodput) {
		return nil, false
	}
	b := f.found(f.Sender.Host, "packet loss").
		because("retransmits, cwnd and rtt in the intervals", "%s in %s, the last %s before the end: %s needs %s at %s to get its full rate back after each", plain.Count(int64(r.alone), "single loss", "single losses"), units.FormatDuration((f.Run.Flow.Omit+f.Window).Round(time.Second)), units.FormatDuration(r.last.Round(time.Second)), name, units.FormatDuration(f.mended().Round(time.Second)), units.FormatDuration(f.nearRTT)).
		because("RFC 5681, RFC 9438", "from the windows just after the losses %s follow as the mean of the test", r.predicted).
		allows(max(r.predicted, f.Goodput), "replay of the congestion window").
		misses(len(f.Beside.Ladder) > 0, "whether the losses come with any rate, or from one rate on", ByCheck)
	b.Explains = f.explainedBy1()
	return b.helps("tcp.congestion_control").noKnob("a longer test shows whether such losses go on (-t 60s); where they do, " + FindLoss), true
}
