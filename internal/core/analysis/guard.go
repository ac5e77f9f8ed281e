package analysis

import (
	"fmt"
	"math"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Guard is a metric that a setting must not harm by its margin or more
// (statistics.md section 6.4).
type Guard struct {
	Metric model.Metric
	// Margin is positive: a log ratio for metrics that verdicts are given on,
	// and the metric's own unit for those that can be 0, such as retransmits or
	// CPU, whose low values are good.
	Margin float64
}

// GuardResult is what the session says of one guard for one setting.
type GuardResult struct {
	Guard
	Setting    string
	Direction  model.Direction
	Holds      bool    // surely no harm as large as the margin
	Blocks     int     // differences behind it
	Estimate   float64 // mean difference on Margin's scale, positive good; 0 without blocks
	MoreBlocks int     // about so many more to hold, where it does not yet
	Reason     string  // why it does not hold
}

// Guards returns one result per guard and direction for a setting of p. The
// setting may be kept only if all hold, and there is at least one for each
// guard; because all must hold, no correction is needed (Berger, Technometrics
// 24, 1982). A fixed plan is looked at once, at its end, which is the caller's
// to see to; a sequential one at any time.
func Guards(p model.Plan, runs []model.Run, setting string, guards []Guard) []GuardResult {
	s := newSession(p, runs, []model.Metric{model.Goodput})
	s.replay()
	var out []GuardResult
	for _, g := range guards {
		for _, d := range directions(p, s.runs, g.Metric) {
			out = append(out, s.guard(g, setting, d))
		}
	}
	return out
}

func (s *session) guard(g Guard, setting string, direction model.Direction) GuardResult {
	r := GuardResult{Guard: g, Setting: setting, Direction: direction}
	var d []float64
	for _, b := range s.blocks {
		if v, ok := guardDifference(b, g.Metric, direction, setting, s.plan.Baseline); ok && !b.null {
			d = append(d, v)
		}
	}
	r.Blocks = len(d)
	if len(d) == 0 {
		r.Reason = fmt.Sprintf("no complete block has %s of %s and the baseline", g.Metric, setting)
		return r
	}
	r.Estimate = stats.Mean(d)
	r.Holds = s.guardHolds(g, d)
	switch {
	case r.Holds:
	case r.Estimate <= -g.Margin:
		r.Reason = "harm of the margin or more is the best estimate"
	default:
		r.MoreBlocks = stats.MoreBlocks(r.Estimate+g.Margin, stats.StdDev(d), 0, len(d), stats.RankBlocks)
		r.Reason = fmt.Sprintf("not enough data after %d blocks", len(d))
	}
	return r
}

// guardHolds asks whether the one-sided bound of d lies above −margin.
func (s *session) guardHolds(g Guard, d []float64) bool {
	if s.plan.Mode == model.FixedBlocks {
		if len(d) < stats.RankBlocks {
			return false
		}
		_, narrow, _ := estimate(d, 1-2*s.alpha) // its low end is the one-sided bound at 1 − alpha
		return float64(narrow.Low) > -g.Margin
	}
	scaled, margin := d, g.Margin
	if _, ratio := senseOf(g.Metric); !ratio {
		scaled, margin = stats.ScaleRates(d, g.Margin), stats.UnitMargin
	}
	ev := stats.NewEvidence(margin)
	for _, v := range scaled {
		ev.Add(v)
	}
	return ev.Max().NotBelow >= math.Log(1/s.alpha)
}

// guardDifference returns the difference of one block, positive good.
func guardDifference(b block, m model.Metric, d model.Direction, setting, baseline string) (float64, bool) {
	values := map[string]float64{}
	for i := range b.runs {
		if v, ok := b.runs[i].Value(d, m); ok {
			values[b.runs[i].Setting] = v
		}
	}
	candidate, ok1 := values[setting]
	base, ok2 := values[baseline]
	if !ok1 || !ok2 {
		return 0, false
	}
	if sense, ratio := senseOf(m); ratio {
		return stats.Difference(candidate, base, sense)
	}
	return stats.RateDifference(candidate, base), true
}
