package analysis

import (
	"math"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// guardCheck returns the state of a series' guard for one side, nil if the series has no guard.
// state is "" while the data do not decide it.
func (s *session) guardCheck(x *series, one *side, estimate float64, state model.GuardState) *model.GuardCheck {
	if x.guard == nil || one.twin {
		return nil
	}
	c := &model.GuardCheck{Guard: *x.guard, State: state, EqualLoad: one.equal, Tolerable: one.tolerable}
	switch {
	case len(one.d) == 0 && s.counted > 0:
		c.State = model.GuardUnmeasured
	case x.negligible(one):
		c.State, c.Negligible = model.GuardHolds, true
	case state == "":
		c.State = model.GuardOpen
		c.MoreBlocks = stats.MoreBlocks(estimate+x.harm, stats.StdDev(one.d), 0, len(one.d), stats.RankBlocks)
	}
	return c
}

// negligible reports whether the values of a side are too small for harm.
func (x *series) negligible(one *side) bool {
	const least = 3 // blocks (p)
	return x.guard != nil && len(one.own) >= least && metric.IsNegligible(*x.guard, math.Exp(-stats.Median(one.own)))
}

// fixedGuard decides at the end of a fixed plan whether harm of the margin is ruled out, by the
// one-sided bound at alpha, or shown, by the bound at its share of alpha: each guard may claim
// harm for each candidate. It records whether harm of metric.Tolerable margins is ruled out.
func (s *session) fixedGuard(x *series, one *side) model.GuardState {
	if x.guard == nil || len(one.d) < stats.RankBlocks {
		return ""
	}
	_, within, _ := s.estimate(one, 1-2*s.alpha) // its low end is the one-sided bound at 1 − alpha
	one.tolerable = float64(within.Low) > -x.tolerable
	_, beyond, _ := s.estimate(one, 1-2*s.alpha/s.harms())
	switch {
	case float64(within.Low) > -x.harm:
		return model.GuardHolds
	case beyond.Method == methodRank && float64(beyond.High) < -x.harm:
		return model.GuardViolated
	}
	return ""
}
