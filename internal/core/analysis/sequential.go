package analysis

import (
	"cmp"
	"math"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// objectiveShare is the part of alpha at which the objective is tested; the other metrics share
// the rest, and have the whole once every comparison of the objective is better or worse. That
// is a graph of tests (Bretz, Maurer, Brannath, Posch, Stat. Med. 28, 2009), which keeps the
// chance of any false verdict below alpha. At 0.95 the least blocks of section 6.3 stay as they
// are up to 12 candidates.
const objectiveShare = 0.95

// levels returns the levels at which the objective and the other metrics are tested. settled
// says that all comparisons of the objective are better or worse.
func (s *session) levels(settled bool) (objective, others float64) {
	switch {
	case !slices.ContainsFunc(s.series, func(x *series) bool { return !x.objective }):
		return s.alpha, 0
	case settled:
		return objectiveShare * s.alpha, s.alpha
	}
	return objectiveShare * s.alpha, (1 - objectiveShare) * s.alpha
}

// decide gives verdicts after a block (statistics.md sections 5.3, 6.1 and 6.4) and marks the
// candidates that are fully decided.
func (s *session) decide() {
	level, _ := s.levels(false)
	for _, x := range s.series {
		if x.objective {
			decideDirections(x.sides, level)
		}
	}
	_, others := s.levels(s.settled())
	var rest []*side
	for _, x := range s.series {
		if !x.objective {
			rest = append(rest, x.sides...)
		}
	}
	decideDirections(rest, others)
	for _, x := range s.series {
		for _, one := range x.sides {
			m, level := one.ev.Max(), math.Log(1/s.alpha)
			if one.outcome == "" && m.NotAbove >= level && m.NotBelow >= level {
				one.outcome = model.Equivalent
			}
			s.decideGuard(one)
		}
	}
	for _, name := range s.candidates {
		s.left[name] = len(s.series) > 0 && !s.open(name)
	}
}

// settled reports whether every comparison of the objective is better or worse.
func (s *session) settled() bool {
	for _, x := range s.series {
		for _, one := range x.sides {
			if x.objective && !one.twin && one.outcome != model.Better && one.outcome != model.Worse {
				return false
			}
		}
	}
	return true
}

// decideGuard tests whether harm of the margin is ruled out, or shown. Each guard that holds is
// a test of its own, since all must hold (Berger, Technometrics 24, 1982); harm may be claimed
// of any guard, so those claims share alpha.
func (s *session) decideGuard(one *side) {
	if one.harmed == nil || one.guard != "" {
		return
	}
	one.tolerable = one.bearable.Max().Up >= math.Log(1/s.alpha)
	switch m := one.harmed.Max(); {
	case m.Up >= math.Log(1/s.alpha):
		one.guard = model.GuardHolds
	case m.Down >= math.Log(s.harms()/s.alpha):
		one.guard = model.GuardViolated
	}
}

// harms is the number of possible claims of harm.
func (s *session) harms() float64 { return float64(max(1, s.guards*len(s.candidates))) }

// open reports whether a candidate has to stay in the blocks: it is undecided in a direction of
// the objective, or it is better and a guard is undecided. A guard does not delay a large
// effect: its estimate is left to the user (statistics.md section 6.5), unless that is harm,
// which a user may not wave through (Keep.Ask). Directions that are no longer measured do not
// delay anything either.
func (s *session) open(name string) bool {
	better, large, waiting, harm := false, true, false, false
	for _, x := range s.series {
		for _, one := range x.sides {
			switch {
			case one.name != name:
			case x.objective && one.outcome == "":
				return true
			case x.objective:
				better = better || one.outcome == model.Better
				large = large && one.outcome == model.Better && one.ev.Interval(0).Low >= stats.LargeEffect
			case x.watched && s.counted >= s.plan.WatchBlocks:
			case one.harmed != nil && one.guard == "" && len(one.d) > 0 && !x.negligible(one):
				waiting = waiting || !one.tolerable
				harm = harm || stats.Mean(one.d) <= -x.harm
			}
		}
	}
	return better && (harm || waiting && !large)
}

// decideDirections applies Holm to the running maxima at level: the leading candidate needs
// 2M/level, the next 2(M−1)/level, and so on. Every candidate stays in the ranking, decided or
// not. A twin is compared on its own, and only at the level where it invalidates all verdicts
// (section 5.4).
func decideDirections(sides []*side, level float64) {
	var ranking []*side
	for _, one := range sides {
		if !one.twin {
			ranking = append(ranking, one)
		} else if leading(one) >= math.Log(stats.NullVeto) {
			one.settle()
		}
	}
	slices.SortStableFunc(ranking, func(a, b *side) int { return cmp.Compare(leading(b), leading(a)) })
	for i, one := range ranking {
		if leading(one) < math.Log(2*float64(len(ranking)-i)/level) {
			return
		}
		one.settle()
	}
}

// leading returns the largest evidence against no difference so far, in logs.
func leading(one *side) float64 { return max(one.ev.Max().Up, one.ev.Max().Down) }

// settle sets the outcome to the leading direction, once.
func (one *side) settle() {
	switch m := one.ev.Max(); {
	case one.outcome != "":
	case m.Up >= m.Down:
		one.outcome = model.Better
	default:
		one.outcome = model.Worse
	}
}

// sequentialVerdicts returns the current verdicts of one series. They never carry a p value:
// evidence may be inspected at any time, a p value may not.
func (s *session) sequentialVerdicts(x *series) []model.Verdict {
	var out []model.Verdict
	for _, one := range x.sides {
		v := s.newVerdict(x, one)
		estimate := 0.0
		if len(one.d) > 0 {
			estimate = stats.PseudoMedian(one.d)
			v.Estimate = x.unscaled(estimate)
		}
		v.Interval = x.interval(one.ev.Interval(0), methodEvidence)
		if x.objective && len(s.candidates) > 1 && !one.twin {
			family := x.interval(one.ev.Interval(1), methodEvidence)
			v.Family = &family
		}
		evidence := math.Exp(min(leading(one), math.Log(math.MaxFloat64)))
		v.Evidence = &evidence
		if one.outcome != "" {
			v.Outcome = one.outcome
			v.Size = size(one.outcome, v.Interval, x.unscaled(x.margin))
		} else {
			v.MoreBlocks = stats.MoreBlocks(estimate, stats.StdDev(one.d), x.margin, len(one.d), s.floor)
		}
		v.Guard = s.guardCheck(x, one, estimate, one.guard)
		out = append(out, v)
	}
	return out
}
