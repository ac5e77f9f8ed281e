package analysis

import (
	"cmp"
	"math"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// decide gives verdicts after a block (statistics.md section 5.3) and notes the
// candidates that are decided in every series.
func (s *session) decide() {
	for _, x := range s.series {
		s.decideDirections(x)
		for _, one := range x.sides {
			m, level := one.ev.Max(), math.Log(1/s.alpha)
			if one.outcome == "" && m.NotAbove >= level && m.NotBelow >= level {
				one.outcome = model.Equivalent
			}
		}
	}
	for _, name := range s.candidates {
		open := slices.ContainsFunc(s.series, func(x *series) bool {
			return slices.ContainsFunc(x.sides, func(one *side) bool { return one.name == name && one.outcome == "" })
		})
		s.left[name] = len(s.series) > 0 && !open
	}
}

// decideDirections takes the running maxima through Holm: the leading candidate
// needs 2M/alpha, the next 2(M−1)/alpha, and so on. Every candidate stays in the
// ranking, decided or not. The twin is compared on its own, and only speaks where
// it takes all verdicts with it (section 5.4).
func (s *session) decideDirections(x *series) {
	var ranking []*side
	for _, one := range x.sides {
		if !one.twin {
			ranking = append(ranking, one)
		} else if leading(one) >= math.Log(stats.NullVeto) {
			one.settle()
		}
	}
	slices.SortStableFunc(ranking, func(a, b *side) int { return cmp.Compare(leading(b), leading(a)) })
	for i, one := range ranking {
		if leading(one) < math.Log(2*float64(len(ranking)-i)/s.alpha) {
			return
		}
		one.settle()
	}
}

// leading returns the largest evidence against no difference so far, in logs.
func leading(one *side) float64 { return max(one.ev.Max().Up, one.ev.Max().Down) }

// settle names the direction that leads, once.
func (one *side) settle() {
	switch m := one.ev.Max(); {
	case one.outcome != "":
	case m.Up >= m.Down:
		one.outcome = model.Better
	default:
		one.outcome = model.Worse
	}
}

// sequentialVerdicts returns the verdicts of one series as they stand. They
// never carry a p value: the evidence may be looked at any time, a p may not.
func (s *session) sequentialVerdicts(x *series) []model.Verdict {
	var out []model.Verdict
	for _, one := range x.sides {
		v := s.newVerdict(x, one)
		if len(one.d) > 0 {
			v.Estimate = stats.PseudoMedian(one.d)
		}
		v.Interval = modelInterval(one.ev.Interval(0), methodEvidence)
		if len(s.candidates) > 1 && !one.twin {
			family := modelInterval(one.ev.Interval(1), methodEvidence)
			v.Family = &family
		}
		evidence := math.Exp(min(leading(one), math.Log(math.MaxFloat64)))
		v.Evidence = &evidence
		if one.outcome != "" {
			v.Outcome = one.outcome
			v.Size = size(one.outcome, v.Interval, s.margin)
		} else {
			v.MoreBlocks = stats.MoreBlocks(v.Estimate, stats.StdDev(one.d), s.margin, len(one.d), s.floor)
		}
		out = append(out, v)
	}
	return out
}
