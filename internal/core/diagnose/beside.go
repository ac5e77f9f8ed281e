package diagnose

import (
	"math"
	"slices"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// besideOf returns what the other tests of a session show about direction d. Of tests of one
// kind the last one counts.
func besideOf(s *model.Session, d model.Direction) Beside {
	var b Beside
	b.Pass = limits.Passed(s.Runs)
	b.Jitter, b.JitterBack = jitterOf(s, d), jitterOf(s, opposite(d))
	for _, r := range s.Runs {
		if _, paced := udp.Of(r.Flow); paced && r.State == model.RunValid && r.Flow.Direction == opposite(d) {
			back, _ := r.Value(opposite(d), model.Goodput)
			b.LadderBack = append(b.LadderBack, rungOf(r, opposite(d), units.BitRate(back)))
		}
		rate, ok := r.Value(d, model.Goodput)
		if r.State != model.RunValid || !ok {
			continue
		}
		_, paced := udp.Toward(r.Flow, d)
		switch {
		case paced && r.Flow.Direction == model.Both: // see Pass
		case paced:
			b.Ladder = append(b.Ladder, rungOf(r, d, units.BitRate(rate)))
		case r.Flow.Direction == model.Both:
			b.Together = fact.Known(units.BitRate(rate), "measured with both directions at once")
			if v, ok := r.Value(opposite(d), model.Goodput); ok {
				b.TogetherBack = fact.Known(units.BitRate(v), b.Together.Source())
			}
			for _, h := range []model.Host{model.Near, model.Far} {
				f := features{Evidence: Evidence{Run: &r, Streams: max(1, r.Flow.Streams)}}
				b.Crowded = b.Crowded || f.crowded(endOf(s, r, d, h))
			}
		case r.Flow.Streams > 1 && r.Setting != s.Plan.Baseline:
			b.Streams, b.Several = r.Flow.Streams, fact.Known(units.BitRate(rate), "measured")
		}
		if r.Setting != s.Plan.Baseline {
			continue
		}
		if v, ok := r.Value(d, model.IdleP50); ok {
			b.Idle = fact.Known(seconds(v), "probes")
		}
		if v, ok := r.Value(d, model.LatencyP50); ok {
			b.Loaded = fact.Known(seconds(v), "probes beside the load")
		}
	}
	if s.Check == nil {
		return b
	}
	for _, w := range s.Check.Ways {
		if w.Direction == d && w.Passes.Or(0) > 0 {
			b.Arrives = w.Passes
			b.TooBigReported = fact.Known(w.Reported, "probes")
		}
	}
	for _, disk := range s.Check.Disks {
		rate := disk.Write
		if disk.Host == d.Sender() {
			rate = disk.Read
		}
		if v, ok := rate.Get(); ok && v < b.File.Or(math.MaxInt64) {
			b.File, b.FileHost = rate, disk.Host
		}
	}
	return b
}

// jitterOf returns how much the one-way delay of datagrams in direction d varied at the slowest
// tested rate, where they delay each other least.
func jitterOf(s *model.Session, d model.Direction) fact.Of[time.Duration] {
	out, slowest := fact.Unknown[time.Duration]("no datagrams were sent"), math.Inf(1)
	for _, r := range s.Runs {
		datagrams, ok := udp.Toward(r.Flow, d)
		if !ok || r.State != model.RunValid || float64(datagrams.Rate) >= slowest {
			continue
		}
		for _, end := range r.Ends {
			for _, f := range end.Flows {
				if f.Direction != d || f.UDP == nil || f.UDP.Variation == nil {
					continue
				}
				most, ok := f.UDP.Variation.Quantile(0.99).Get()
				if half, known := f.UDP.Variation.Quantile(0.5).Get(); ok && known {
					out, slowest = fact.Known(most-half, "one-way delay of datagrams"), float64(datagrams.Rate)
				}
			}
		}
	}
	return out
}

// opposite returns the other single direction.
func opposite(d model.Direction) model.Direction {
	if d == model.To {
		return model.From
	}
	return model.To
}

// rungOf returns the result of one run of paced UDP.
func rungOf(r model.Run, d model.Direction, received units.BitRate) Rung {
	out := Rung{Received: received, Size: r.Flow.Block}
	for _, end := range r.Ends {
		for _, f := range end.Flows {
			switch {
			case f.Direction != d || f.UDP == nil:
			case f.Role == model.Receiver:
				out.Lost, out.Got = f.UDP.Lost, f.UDP.Received
				if out.Size == 0 && f.UDP.Received > 0 {
					out.Size = f.Bytes / units.Bytes(f.UDP.Received)
				}
			case f.Window > 0:
				out.Sent = units.BitRate(float64(f.Bytes) * 8 / f.Window.Seconds())
			}
		}
	}
	if loss, ok := LocateUDP(r, d); ok {
		out.Host, out.Unseen = loss.Explained, slices.Contains(loss.Unknown(), PlaceRecvSocket)
	}
	return out
}

// loopbackOf returns the rate of a host over loopback.
func loopbackOf(s *model.Session, h model.Host) fact.Of[units.BitRate] {
	if s.Check != nil {
		for _, own := range s.Check.Own {
			if own.Host == h {
				return own.Rate
			}
		}
	}
	return fact.Unknown[units.BitRate]("not tried")
}

// seconds converts a metric's value in seconds.
func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
