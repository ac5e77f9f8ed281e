package report

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

// Datagrams counts a direction's UDP datagrams, over all runs together.
type Datagrams struct {
	Asked      fact.Of[units.BitRate] `json:"asked"`     // requested payload rate; unknown if as fast as possible
	SentRate   fact.Of[units.BitRate] `json:"sent_rate"` // payload rate that the sender reached, median over runs
	Sent       int64                  `json:"sent"`      // at least Received and Lost together
	Received   int64                  `json:"received"`  // different ones
	Lost       int64                  `json:"lost"`
	Loss       float64                `json:"loss"` // lost of received and lost, 0…1
	Duplicates int64                  `json:"duplicates"`
	Reordered  int64                  `json:"reordered"`
	Jitter     fact.Of[time.Duration] `json:"jitter_ns"` // RFC 3550, median over runs
	Pacing     string                 `json:"pacing"`
}

// datagrams adds up the reports of direction d; nil if there are none.
func (b *builder) datagrams(runs []model.Run, d model.Direction) *Datagrams {
	var out *Datagrams
	var jitters, rates []float64
	for _, r := range runs {
		rate := 0.0
		for _, end := range r.Ends {
			for _, f := range end.Flows {
				if f.Direction != d || f.UDP == nil {
					continue
				}
				if out == nil {
					out = &Datagrams{Asked: b.asked(r.Flow)}
				}
				if f.Role == model.Sender {
					out.Sent, out.Pacing = out.Sent+f.UDP.Sent, f.UDP.Pacing
					rate += 8 * float64(f.Bytes) / max(f.Window.Seconds(), 1e-9)
					continue
				}
				out.Received += f.UDP.Received
				out.Lost += f.UDP.Lost
				out.Duplicates += f.UDP.Duplicates
				out.Reordered += f.UDP.Reordered
				if j, ok := f.UDP.Jitter.Get(); ok {
					jitters = append(jitters, float64(j))
				}
			}
		}
		if rate > 0 {
			rates = append(rates, rate)
		}
	}
	if out == nil {
		return nil
	}
	// The numbers of the datagrams prove that many, also if the sender reports nothing, or the
	// windows of both ends begin a moment apart.
	out.Sent = max(out.Sent, out.Received+out.Lost)
	out.SentRate = fact.Unknown[units.BitRate]("the sender did not report it")
	if len(rates) > 0 {
		out.SentRate = fact.Known(units.BitRate(stats.Median(rates)), "the sender, median over runs")
	}
	if all := out.Received + out.Lost; all > 0 {
		out.Loss = float64(out.Lost) / float64(all)
	}
	out.Jitter = fact.Unknown[time.Duration]("no stream reported it")
	if len(jitters) > 0 {
		out.Jitter = fact.Known(time.Duration(stats.Median(jitters)), "RFC 3550, median over runs")
	}
	return out
}

// asked returns the payload rate that a flow requests.
func (b *builder) asked(f model.Flow) fact.Of[units.BitRate] {
	d := b.demand(f)
	if d.Rate == 0 {
		return fact.Unknown[units.BitRate](cmp.Or(d.Pace, "as fast as possible"))
	}
	return fact.Known(d.Rate, "asked for")
}

// demand returns the demand of f's kind.
func (b *builder) demand(f model.Flow) traffic.Demand {
	kind, _ := b.kinds.ByName(f.Engine)
	return kind.Of(f)
}

// FormatLoss formats a share of datagrams, with two significant digits: "0.13 %".
func FormatLoss(v float64) string {
	if v <= 0 || v >= 1 {
		return units.FormatShare(v)
	}
	digits := max(0, 1-int(math.Floor(math.Log10(100*v))))
	return strconv.FormatFloat(100*v, 'f', digits, 64) + " %"
}
