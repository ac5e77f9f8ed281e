package analysis

import (
	"fmt"
	"math/rand/v2"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Names of the methods behind intervals, stored in model.Interval.
const (
	methodRank     = "exact signed-rank"
	methodT        = "t"
	methodEvidence = "sign evidence"
)

// PCG streams of the session's seed, distinct from the stream of the order.
const (
	flipStream  = 0x666c6970 // "flip"
	nullStream  = 0x6e756c6c // "null"
	shiftStream = 0x73686966 // "shif"
)

// look is the analysis of one candidate at the end of a fixed plan, on the scale of its series.
type look struct {
	x       *series
	one     *side
	verdict model.Verdict
	within  stats.Interval // the verdict's
	narrow  stats.Interval // at 1 − 2 alpha, for equivalence
	p       float64        // 1 if not computed
}

// fixedVerdicts returns the verdicts of all series after a fixed number of blocks
// (statistics.md sections 4.4, 6.1 and 6.2); before done, estimates only. Each direction of the
// objective is a family; all other comparisons together are one more family, tested at the
// level that the first ones leave (see objectiveShare).
func (s *session) fixedVerdicts(done bool) []model.Verdict {
	var out []model.Verdict
	var rest []look
	level, others := s.levels(false)
	settled := true
	for _, x := range s.series {
		looks := make([]look, len(x.sides))
		for i, one := range x.sides {
			looks[i] = s.look(x, one, done)
		}
		if !x.objective {
			rest = append(rest, looks...)
			continue
		}
		for _, v := range s.nameFamily(looks, level, done) {
			settled = settled && (v.IsTwin || v.Outcome == model.Better || v.Outcome == model.Worse)
			out = append(out, v)
		}
	}
	if settled {
		_, others = s.levels(true)
	}
	return append(out, s.nameFamily(rest, others, done)...)
}

// estimate returns the point estimate, on the scale of the series.
func (l look) estimate() float64 { return l.verdict.Estimate * l.x.scale }

// nameFamily applies Holm to the p values of looks at level and sets the outcomes.
func (s *session) nameFamily(looks []look, level float64, done bool) []model.Verdict {
	var p []float64
	for _, l := range looks {
		if !l.one.twin {
			p = append(p, l.p)
		}
	}
	adjusted := stats.Holm(p)
	out := make([]model.Verdict, len(looks))
	next := 0
	for i, l := range looks {
		own := l.p
		if !l.one.twin {
			own = min(1, adjusted[next]*s.alpha/level)
			next++
		}
		out[i] = s.nameFixed(l, own, done)
		state := model.GuardState("")
		if done {
			state = s.fixedGuard(l.x, l.one)
		}
		out[i].Guard = s.guardCheck(l.x, l.one, l.estimate(), state)
	}
	return out
}

// look computes the interval, the family's interval and the p value of one side. Before the end
// it computes only the objective's interval.
func (s *session) look(x *series, one *side, done bool) look {
	l := look{x: x, one: one, verdict: s.newVerdict(x, one), within: stats.Unbounded(), narrow: stats.Unbounded(), p: 1}
	n, comparisons := len(one.d), len(s.candidates)
	if one.twin || !x.objective {
		comparisons = 1
	}
	if n < stats.NormalBlocks || !done && !x.objective {
		return l
	}
	v := &l.verdict
	var warnings []string
	g, within, warnings := s.estimate(one, s.plan.Confidence)
	v.Estimate, v.Interval, l.within = x.unscaled(g), x.modelInterval(within), plainInterval(within)
	v.Warnings = append(v.Warnings, warnings...)
	if !done {
		return l
	}
	_, narrow, _ := s.estimate(one, 1-2*s.alpha)
	l.narrow = plainInterval(narrow)
	if comparisons > 1 {
		_, family, _ := s.estimate(one, 1-s.alpha/float64(comparisons))
		family = x.modelInterval(family)
		v.Family = &family
	}
	floor := stats.MinBlocks(comparisons, s.alpha)
	if n >= floor {
		l.p = s.exactP(one)
		return l
	}
	if n >= stats.RankBlocks {
		l.p = stats.TInterval(one.d, s.plan.Confidence).P
		v.Warnings = append(v.Warnings, fmt.Sprintf(
			"%d blocks are few for %d comparisons: what is said of them is approximate, and exact from %d blocks on", n, comparisons, floor))
	}
	return l
}

func plainInterval(i model.Interval) stats.Interval {
	return stats.Interval{Low: float64(i.Low), High: float64(i.High), Confidence: i.Confidence}
}

// exactP returns the signed-rank p, or with tied sizes that of the sign-flip test
// (statistics.md section 4.2).
func (s *session) exactP(one *side) float64 {
	if _, p, ok := s.ranks(one).SignedRank(); ok {
		return p
	}
	return stats.SignFlip(one.d, rand.New(rand.NewPCG(s.plan.Seed, flipStream)))
}

// estimate returns the Hodges–Lehmann estimate and interval where there are
// enough blocks for the level, and mean and t interval otherwise.
func (s *session) estimate(one *side, level float64) (float64, model.Interval, []string) {
	if len(one.d) >= stats.RankBlocks {
		if r := s.ranks(one).HodgesLehmann(level); r.K > 0 {
			return r.Estimate, modelInterval(r.Interval, methodRank), r.Warnings
		}
	}
	t := stats.TInterval(one.d, level)
	return t.Estimate, modelInterval(t.Interval, methodT), t.Warnings
}

// ranks returns the ranks of all differences of a side, at the end of the replay.
func (s *session) ranks(one *side) *stats.Ranks {
	if one.ranks == nil {
		one.ranks = stats.NewRanks(one.d, s.tables)
	}
	return one.ranks
}

// rounding is how far from 0 a bound must lie to count as above or below it. Bounds are means
// of two differences, which may cancel: whether their sum is then exactly 0 depends on
// floating-point rounding. The sign-flip test has the same slack (statistics.md section 4.1).
const rounding = 1e-12

// nameFixed implements the table of statistics.md section 4.4, rows 2 to 6.
func (s *session) nameFixed(l look, p float64, done bool) model.Verdict {
	v := l.verdict
	if !done {
		v.Reason = fmt.Sprintf("block %d of %d: a fixed plan is judged once, at its end", s.counted, s.plan.MaxBlocks)
		v.MoreBlocks = s.remaining(v.Setting)
		return v
	}
	if v.Blocks < stats.RankBlocks {
		v.MoreBlocks = stats.RankBlocks - v.Blocks
		v.Reason = fmt.Sprintf("needs at least %d blocks", stats.RankBlocks)
		return v
	}
	v.P = &p
	low, high, m := l.within.Low, l.within.High, l.x.margin
	switch {
	case low > rounding && p < s.alpha:
		v.Outcome = model.Better
	case high < -rounding && p < s.alpha:
		v.Outcome = model.Worse
	case -m < l.narrow.Low && l.narrow.High < m:
		v.Outcome = model.Equivalent
	default:
		v.MoreBlocks = stats.MoreBlocks(l.estimate(), stats.StdDev(l.one.d), m, v.Blocks, s.floor)
		if low > rounding || high < -rounding {
			v.Reason = "differs alone, but not among all comparisons"
			if l.x.objective {
				v.Reason = fmt.Sprintf("differs alone, but not among %d comparisons", len(s.candidates))
			}
		}
	}
	v.Size = size(v.Outcome, v.Interval, l.x.unscaled(m))
	return v
}
