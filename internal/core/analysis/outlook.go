package analysis

import (
	"fmt"
	"math"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Outlook is what a plan can show, known before its first run (statistics.md section 7.3).
// Numbers of blocks are block differences per candidate.
type Outlook struct {
	Candidates  int
	LeastBlocks int                    // no verdict of a direction before this many blocks
	MostBlocks  int                    // the plan's own limit
	Expected    fact.Of[int]           // blocks to decide a change of the margin; MostBlocks in a fixed plan
	NullBlocks  int                    // baseline pairs before
	Runs        int                    // in all blocks, if no candidate leaves early
	MostTime    fact.Of[time.Duration] // for Runs; unknown where runs end after an amount of bytes
	Time        fact.Of[time.Duration] // for Expected
	Noise       fact.Of[float64]       // standard deviation of a block difference, log ratio
	LeastChange fact.Of[units.Percent] // smallest change that is detected, at 80 % power
	Warnings    []string
}

// PlanLine returns the outlook of p at the given noise, from an earlier session of the same
// hosts or from baseline pairs. A fixed plan with several candidates is judged at the level of
// Holm's first step, the hardest one.
func PlanLine(p model.Plan, noise fact.Of[float64]) Outlook {
	alpha := 1 - p.Confidence
	o := Outlook{
		Candidates: len(plan.Candidates(p)), MostBlocks: plan.Comparisons(p), NullBlocks: p.NullBlocks, Noise: noise,
		Expected: fact.Unknown[int]("the noise is unknown"), LeastChange: fact.Unknown[units.Percent]("the noise is unknown"),
	}
	o.LeastBlocks = stats.MinBlocks(o.Candidates, alpha)
	o.Runs = p.Runs()
	sigma, known := noise.Get()
	if p.Mode == model.FixedBlocks {
		o.Expected = fact.Known(o.MostBlocks, "plan")
		o.fixed(alpha, sigma, known)
	} else if known {
		expected := max(o.LeastBlocks, stats.ExpectedBlocks(sigma, stats.LogMargin(p.Margin)))
		if o.Expected = fact.Known(expected, noise.Source()); expected > o.MostBlocks {
			o.Expected = fact.Unknown[int]("the plan has too few blocks")
			o.Warnings = append(o.Warnings, fmt.Sprintf("a change of %s takes about %d blocks, more than the plan's %d", p.Margin, expected, o.MostBlocks))
		}
		if o.MostBlocks > 0 {
			o.setLeast(stats.SequentialLeast(o.MostBlocks, sigma))
		}
	}
	o.times(p)
	return o
}

func (o *Outlook) fixed(alpha, sigma float64, known bool) {
	switch {
	case o.Candidates == 0:
		o.LeastChange = fact.Unknown[units.Percent]("nothing is compared")
	case o.MostBlocks < stats.RankBlocks:
		o.LeastChange = fact.Unknown[units.Percent]("too few blocks for any verdict")
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d blocks can decide nothing, not even what is obvious: all of their differences may have one sign by chance, with a probability of %.2g; with %d blocks that is %.2g: --blocks %d",
			o.MostBlocks, math.Exp2(float64(1-o.MostBlocks)), stats.RankBlocks, math.Exp2(1-stats.RankBlocks), stats.RankBlocks))
		return
	case known:
		level := alpha / float64(o.Candidates)
		o.setLeast(sigma * stats.LeastEffect(o.MostBlocks, stats.PlannedPower, level))
	}
	if o.Candidates > 0 && o.MostBlocks < o.LeastBlocks {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d blocks can decide what is obvious; for exact verdicts on %d comparisons it takes %d: --blocks %d", o.MostBlocks, o.Candidates, o.LeastBlocks, o.LeastBlocks))
	}
}

func (o *Outlook) setLeast(g float64) {
	o.LeastChange = fact.Known(stats.Change(g, stats.HigherIsBetter), o.Noise.Source())
}

// times adds up the run times; the time to set a knob and read it back comes on top and is not
// known beforehand.
func (o *Outlook) times(p model.Plan) {
	if p.Flow.Duration == 0 {
		o.MostTime = fact.Unknown[time.Duration]("runs end after an amount of bytes")
		o.Time = o.MostTime
		return
	}
	each := p.RunLength()
	o.MostTime = fact.Known(time.Duration(o.Runs)*each, "plan")
	expected, known := o.Expected.Get()
	if !known {
		o.Time = fact.Unknown[time.Duration](o.Expected.Reason())
		return
	}
	pairs := 2 * p.NullBlocks * max(1, len(p.Directions))
	share := float64(expected) / float64(max(1, o.MostBlocks))
	runs := float64(pairs) + share*float64(o.Runs-pairs)
	o.Time = fact.Known(time.Duration(runs*float64(each)), o.Expected.Source())
	if p.Budget > 0 && o.Time.Or(0) > p.Budget {
		o.Warnings = append(o.Warnings, "the budget is likely to be spent before a decision")
	}
}
