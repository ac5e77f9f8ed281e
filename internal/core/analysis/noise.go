package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Noise is how far the baseline is from itself, as a standard deviation of block
// differences in log ratios (statistics.md section 7.1).
type Noise struct {
	Direction model.Direction
	Metric    model.Metric
	Source    string // "baseline pairs" or "twin"
	stats.Noise
}

// judgeNull asks whether the baseline differs from itself and notes the noise
// (statistics.md section 2). The twin of a fixed plan is judged at its end, like
// every other setting.
func (s *session) judgeNull(r *Result, atEnd bool) {
	for _, x := range s.series {
		if d := s.nullPairs(x); len(d) > 0 {
			r.Noise = append(r.Noise, Noise{x.direction, x.metric, "baseline pairs", stats.NullNoise(d)})
			if s.differs(d) {
				s.distrust(r, "%s: two runs of the baseline differed by %.1f %% in the %d pairs at the start, more than the margin",
					x.label(), math.Abs(float64(stats.Change(stats.Mean(d), x.sense))), len(d))
			}
		}
		for _, one := range x.sides {
			if !one.twin || len(one.d) == 0 {
				continue
			}
			r.Noise = append(r.Noise, Noise{x.direction, x.metric, "twin", stats.NullNoise(one.d)})
			if o := s.twinOutcome(x, one, atEnd); o == model.Better || o == model.Worse {
				s.distrust(r, "%s: a copy of the baseline came out %s than the baseline", x.label(), o)
			}
		}
	}
}

func (s *session) distrust(r *Result, format string, args ...any) {
	if !r.Untrustworthy {
		r.Untrustworthy, r.Reason = true, "untrustworthy: "+fmt.Sprintf(format, args...)
	}
}

func (s *session) twinOutcome(x *series, one *side, atEnd bool) model.Outcome {
	if s.plan.Mode == model.Sequential {
		return one.outcome
	}
	l := s.look(x, one)
	return s.nameFixed(l, l.p, one.d, atEnd).Outcome
}

// nullSigns returns +1 or −1 per block number. Nobody is the candidate in a
// baseline pair: a coin from the session's seed says so for each block, so that
// a position effect, which random order forgives, is no difference here.
func (s *session) nullSigns() []float64 {
	coin := rand.New(rand.NewPCG(s.plan.Seed, nullStream))
	signs := make([]float64, s.plan.NullBlocks+1)
	for i := range signs {
		signs[i] = 1
		if coin.Uint64()&1 == 1 {
			signs[i] = -1
		}
	}
	return signs
}

// nullPairs returns the differences of the complete baseline pairs.
func (s *session) nullPairs(x *series) []float64 {
	signs := s.nullSigns()
	var d []float64
	for _, b := range s.blocks {
		if ys := x.values(b); b.null && len(ys) == 2 {
			d = append(d, signs[b.number]*(ys[1]-ys[0]))
		}
	}
	return d
}

// differs reports whether baseline pairs show a difference: the t interval lies
// beyond 0 and the mean is at least the margin. Four pairs are too few for an
// exact test, and statistics.md leaves the rule open. A difference below the
// margin would not matter to the user, and asking for both keeps a quiet path
// from being distrusted by chance in one session of twenty.
func (s *session) differs(d []float64) bool {
	if len(d) < stats.NormalBlocks {
		return false
	}
	t := stats.TInterval(d, s.plan.Confidence)
	return (t.Low > 0 || t.High < 0) && math.Abs(t.Estimate) >= s.margin
}
