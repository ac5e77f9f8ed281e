package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// judgeNull tests whether the baseline differs from itself and records the noise (statistics.md
// sections 2 and 5.4). The twin of a fixed plan is judged at its end, like every other setting.
// Only the objective can make a session untrustworthy; for other metrics a differing twin gives
// a warning.
func (s *session) judgeNull(r *Result, atEnd bool) {
	others := lists.Count(s.series, func(x *series) bool { return !x.objective })
	for _, x := range s.series {
		if d := s.nullPairs(x); len(d) > 0 && x.objective {
			e := s.evidence(d)
			r.Noise = append(r.Noise, x.noise("baseline pairs", d, e))
			s.judge(r, e, "%s: two runs of the baseline differed by %s in the %d pairs at the start",
				x.label(), strings.TrimPrefix(x.change(stats.Mean(d), 1), "-"), len(d))
		}
		for _, one := range x.sides {
			if !one.twin || len(one.d) == 0 {
				continue
			}
			unready := s.plan.Mode == model.FixedBlocks && !atEnd
			e := 0.0
			if !unready {
				e = s.against(one)
			}
			word := model.Better
			if stats.Mean(one.d) < 0 {
				word = model.Worse
			}
			const differs = "%s: a copy of the baseline came out %s than the baseline"
			switch {
			case x.objective:
				r.Noise = append(r.Noise, x.noise("twin", one.d, e))
				s.judge(r, e, differs, x.label(), word)
			case e >= math.Log(stats.NullVeto*float64(others)):
				r.Warnings = append(r.Warnings, fmt.Sprintf(differs+": believe no verdict on that", x.label(), word))
			}
		}
	}
}

// noise describes differences d of the baseline with itself; evidence, in logs, is that they
// are not chance.
func (x *series) noise(source string, d []float64, evidence float64) model.Noise {
	n := stats.NullNoise(d)
	return model.Noise{
		Direction: x.direction, Metric: x.ID, Source: source, Pairs: n.Pairs, Sigma: x.unscaled(n.Sigma), Upper: x.unscaled(n.Upper),
		Checked: len(d) >= stats.RankBlocks, Evidence: math.Exp(min(max(0, evidence), math.Log(math.MaxFloat64))),
	}
}

// judge acts on the evidence, in logs, that the baseline differs from itself: from 200 on it
// withholds all verdicts, which happens to one good session in a hundred; from 40 on it adds a
// warning.
func (s *session) judge(r *Result, evidence float64, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	switch {
	case evidence >= math.Log(stats.NullVeto):
		if !r.Untrustworthy {
			r.Untrustworthy, r.Reason = true, "untrustworthy: "+what
		}
	case evidence >= math.Log(stats.NullWarn):
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s: by chance in one session of %d", what, stats.NullWarn/2))
	}
}

// against returns the evidence that a twin differs from the baseline, in logs. A fixed plan has
// no evidence that is valid at any time; at its end p stands in for it.
func (s *session) against(one *side) float64 {
	if one.ev != nil {
		return leading(one)
	}
	if len(one.d) < stats.RankBlocks {
		return 0
	}
	return math.Log(2 / s.exactP(one)) // both sides together: p = 2/E, as in section 6.1
}

// evidence returns the evidence that differences of the baseline with itself are not chance, in
// logs; at most 2ⁿ, so that fewer than 6 show nothing.
func (s *session) evidence(d []float64) float64 {
	e := stats.NewEvidence(s.margin)
	for _, v := range d {
		e.Add(v)
	}
	return max(e.Max().Up, e.Max().Down)
}

// nullSigns returns +1 or −1 per block number. A baseline pair has no candidate: a coin from
// the session's seed picks one for each block, so that a position effect, which random order
// cancels, is not taken for a difference.
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
