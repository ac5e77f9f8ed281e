// Package analysis draws the conclusions of a session. It is the only package that gives
// verdicts.
//
//  1. Runs become blocks: a block counts when one attempt of it has all its
//     runs valid (blocks.go).
//  2. Blocks become one series of differences per candidate, direction and
//     metric, replayed in the order in which they were completed (series.go).
//  3. Series become verdicts: after a fixed number of blocks (fixed.go), or as
//     soon as the evidence suffices (sequential.go). The two are never mixed.
//  4. The session is checked for trustworthiness: null twin or baseline pairs,
//     position, trend, a path that changed (health.go, noise.go).
//
// The rules are those of statistics.md sections 2 to 8. Where they leave a choice:
//
//   - Equivalence is not corrected for the number of candidates. Section 5.3
//     applies Holm only to the levels of better and worse; each claim of
//     equivalence is two one-sided tests and holds at the plan's level alone.
//   - A candidate that was found equivalent keeps its place in Holm's ranking:
//     only a rejected hypothesis makes the next threshold easier.
//   - Each direction is a family of its own. Inside one, the objective has nearly
//     all of alpha; the other metrics share the rest, and have the whole once the
//     objective is settled (objectiveShare).
//   - A candidate leaves the blocks when it is decided in all directions of the
//     objective and, if it is better there, its guards hold or are violated.
//   - In a plan that holds a knob over groups of runs, no candidate leaves before
//     all are decided: a smaller group would begin sooner with a run that counts, and
//     the effect of a change on the run after it would pass for the candidate's.
//   - Better and worse need both the plain interval beyond 0 and the adjusted
//     p below alpha. For one candidate without ties the two are the same.
//   - A fixed plan is judged when its blocks, or its budget, are spent; before
//     that there is an estimate, but no p and no verdict.
//   - The plateau describes the blocks measured so far. The stop rule never uses
//     it, so that stopping does not depend on it.
package analysis

import (
	"fmt"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
)

// Result is the state of the analysis of a session.
type Result struct {
	Verdicts      []model.Verdict // per metric and direction, objective first, in the order of the plan's settings
	Plateaus      []model.Plateau // per direction of the objective, where the plan has a factor and 3 complete blocks, and verdicts may be given
	Noise         []model.Noise   // per direction of the objective, where baseline was compared with itself
	Health        []Health        // per direction of the objective, where there are complete blocks
	Blocks        int             // complete blocks, without baseline pairs
	Untrustworthy bool            // baseline differs from itself: no verdict is given
	PathChanged   bool            // the baseline fell for good: no verdict is given
	Reason        string          // why untrustworthy, or else why Done
	Done          bool            // nothing is left to run
	Leaving       []string        // candidates that are decided everywhere and may leave the blocks
	Enough        float64         // evidence that decides the leading candidate; 0 in a fixed plan
	Hopeless      bool            // not Done, but no candidate is likely to be decided: ask, or stop
	Unstable      []Unstable      // settings that cause more invalid runs than the others
	Warnings      []string
}

// Analyse evaluates the runs of plan p: the objective, its guards, and every other metric that
// the traffic measures, in each direction. The runs may be in any order and include invalid
// ones and all attempts; nothing else is removed. The result depends on p and runs only.
func Analyse(p model.Plan, runs []model.Run) Result {
	s := newSession(p, runs)
	s.replay()
	r := Result{Blocks: s.counted, Unstable: unstable(s.runs)}
	for _, u := range r.Unstable {
		s.warnings = append(s.warnings, fmt.Sprintf("unstable: %d of %d runs of %s were invalid", u.Invalid, u.Runs, u.Setting))
	}
	for _, x := range s.series {
		if !x.objective {
			continue
		}
		h := s.health(x)
		if h.Blocks > 0 {
			r.Health = append(r.Health, h)
			s.warnings = append(s.warnings, h.warnings(x)...)
		}
		if h.PathChanged && !r.PathChanged {
			r.PathChanged, r.Reason = true, "the path changed during the session"
		}
	}
	r.Warnings = s.warnings
	spent := s.spent()
	s.judgeNull(&r, spent != "")
	s.finish(&r, spent)
	r.Verdicts = s.verdicts(r)
	for _, x := range s.series {
		if pl, ok := s.plateau(x, r.Verdicts); ok && !r.Untrustworthy && !r.PathChanged {
			r.Plateaus = append(r.Plateaus, pl)
		}
	}
	if s.plan.Mode == model.Sequential && len(s.candidates) > 0 {
		level, _ := s.levels(false)
		r.Enough = 2 * float64(len(s.candidates)) / level
	}
	r.Hopeless = s.hopeless(r)
	return r
}

// finish applies the stop rule (statistics.md section 5.3): distrust, a changed
// path, every candidate decided, or nothing left to spend.
func (s *session) finish(r *Result, spent string) {
	decided := s.plan.Mode == model.Sequential && len(s.candidates) > 0
	for _, name := range s.candidates {
		decided = decided && s.left[name]
		if s.left[name] && s.plan.Held == "" { // groups have to stay equally large
			r.Leaving = append(r.Leaving, name)
		}
	}
	switch {
	case r.Untrustworthy, r.PathChanged:
		r.Done = true
	case decided:
		r.Done, r.Reason = true, "every comparison is decided"
	case spent != "":
		r.Done, r.Reason = true, spent
	}
}

// verdicts returns the verdicts of all series.
func (s *session) verdicts(r Result) []model.Verdict {
	var out []model.Verdict
	if s.plan.Mode == model.FixedBlocks {
		out = s.fixedVerdicts(r.Done)
	} else {
		for _, x := range s.series {
			out = append(out, s.sequentialVerdicts(x)...)
		}
	}
	for i := range out {
		v := &out[i]
		if v.IsTwin && r.Untrustworthy {
			continue // its own finding is the reason
		}
		if v.IsTwin && (v.Outcome == model.Better || v.Outcome == model.Worse) {
			v.Outcome, v.Size, v.Reason = model.Undecided, "", "it differs from the baseline by chance, as one copy in twenty does"
		}
		if r.Untrustworthy || r.PathChanged {
			v.Outcome, v.Size, v.MoreBlocks, v.P, v.Reason = model.Undecided, "", 0, nil, r.Reason
			if v.Guard != nil {
				v.Guard.State, v.Guard.MoreBlocks = model.GuardOpen, 0
			}
			continue
		}
		if v.Outcome == model.Undecided && v.Reason == "" {
			v.Reason = NotEnough(v.Blocks)
		}
	}
	return out
}

// NotEnough is the reason for a verdict that only lacks data.
func NotEnough(blocks int) string { return fmt.Sprintf("not enough data after %d blocks", blocks) }

// hopeless reports whether every candidate without a verdict would need more
// than three times the blocks that are left (statistics.md section 5.3, rule
// 4). It reports false before any verdict is possible.
func (s *session) hopeless(r Result) bool {
	if r.Done || s.plan.Mode != model.Sequential {
		return false
	}
	open := false
	for _, v := range r.Verdicts {
		if v.IsTwin || v.Metric != s.plan.Objective || v.Outcome != model.Undecided {
			continue
		}
		if v.Blocks < s.floor || v.MoreBlocks <= stats.HopelessFactor*s.remaining(v.Setting) {
			return false
		}
		open = true
	}
	return open
}

// newVerdict returns the parts of a verdict that both modes share.
func (s *session) newVerdict(x *series, side *side) model.Verdict {
	v := model.Verdict{
		Setting: side.name, Baseline: s.plan.Baseline, Direction: x.direction, Metric: x.ID,
		Outcome: model.Undecided, Blocks: len(side.d), IsTwin: side.twin,
		Interval: modelInterval(stats.Unbounded(), "none"),
	}
	if len(side.d) > 0 {
		v.Estimate = x.unscaled(stats.Mean(side.d))
	}
	return v
}

// interval returns i as verdicts store it, converted from the scale of the series.
func (x *series) interval(i stats.Interval, method string) model.Interval {
	return x.modelInterval(modelInterval(i, method))
}

func (x *series) modelInterval(i model.Interval) model.Interval {
	i.Low, i.High = model.Bound(x.unscaled(float64(i.Low))), model.Bound(x.unscaled(float64(i.High)))
	return i
}

func modelInterval(i stats.Interval, method string) model.Interval {
	return model.Interval{Low: model.Bound(i.Low), High: model.Bound(i.High), Confidence: i.Confidence, Method: method}
}

// size states the least size of a proven difference (statistics.md section 4.4).
func size(o model.Outcome, i model.Interval, margin float64) string {
	low, high := float64(i.Low), float64(i.High)
	if o == model.Worse {
		low, high = -high, -low
	}
	switch {
	case o != model.Better && o != model.Worse:
		return ""
	case low >= margin:
		return "at least the margin"
	case high < margin:
		return "small"
	}
	return ""
}

// plateau returns the smallest level that is good enough, from the blocks in which all levels
// are present (statistics.md section 8). Levels are compared with the baseline too, even if it
// is not a level: the smallest level has to be as good as the present setting.
func (s *session) plateau(x *series, verdicts []model.Verdict) (model.Plateau, bool) {
	levels := s.plan.Levels
	if len(levels) < 2 || !x.objective || x.CanBe0 {
		return model.Plateau{}, false
	}
	all := levels
	now := slices.Index(levels, s.plan.Baseline)
	if now < 0 {
		now, all = len(levels), append(slices.Clone(levels), s.plan.Baseline)
	}
	var rows [][]float64
	for _, b := range s.blocks {
		if row, ok := x.row(b, all); ok && !b.null {
			rows = append(rows, row)
		}
	}
	if len(rows) < stats.NormalBlocks {
		return model.Plateau{}, false
	}
	found := stats.Plateau(rows, float64(s.plan.Tolerance)/100, s.plan.Confidence)
	// A level that is better justifies the change, however small the gain.
	gains := slices.ContainsFunc(verdicts, func(v model.Verdict) bool {
		return v.Direction == x.direction && v.Metric == x.ID && v.Outcome == model.Better && !v.IsTwin
	})
	out := model.Plateau{Direction: x.direction, Metric: x.ID, Tolerance: s.plan.Tolerance, Baseline: s.plan.Baseline, Leave: found.Passes(now) && !gains}
	if out.Decided = found.Decided && (found.Level < len(levels) || out.Leave); out.Decided {
		if found.Level < len(levels) {
			out.Level = levels[found.Level]
		}
		return out, true
	}
	// The best may be the baseline, which is not a level: then any level may be the answer.
	out.From, out.To = levels[min(found.From, len(levels)-1)], levels[min(found.To, len(levels)-1)]
	out.Reason = fmt.Sprintf("after %d blocks no level is surely within %g %% of every other", len(rows), float64(s.plan.Tolerance))
	if now == len(levels) {
		out.Reason += " and of " + s.plan.Baseline
	}
	return out, true
}

// candidatesOf returns the settings to compare, in the order of the plan.
func candidatesOf(p model.Plan) []string { return slices.Clip(plan.Candidates(p)) }
