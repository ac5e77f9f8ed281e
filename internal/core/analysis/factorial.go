package analysis

import (
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
)

// Factorial is the effect of each factor of a grid on the objective, in one direction, from the
// blocks in which every combination was measured (Fisher, The Design of Experiments, 1935:
// every run informs about every factor).
//
// If the plan holds a factor over groups of runs, the runs of a group share the effects of its
// change. Every effect is one difference of means per block, and that is the right error for
// both kinds (statistics.md section 11.3). For the held factor it is a difference between group
// means, so it has the spread between groups and as many degrees of freedom as there are
// blocks, whatever the number of runs in a group. For the other factors, and interactions with
// the held one, it is the mean of differences inside groups, where common effects cancel.
type Factorial struct {
	Direction model.Direction
	Metric    model.Metric
	Blocks    int
	Factors   []model.Factor
	Mains     []Effect
	Pairs     []Interaction
	// Good lists the combinations that are provably within the plan's tolerance of every other
	// good one and of the baseline (statistics.md section 8).
	Good []string
}

// Effect is the gain of one level of a factor over its first level, averaged over all levels of
// the other factors.
type Effect struct {
	Factor, Level int // from 0
	Shown
}

// Interaction is how much the gain of one level of a factor changes with the level of another
// factor. Of all such pairs of levels it is the one that differs most.
type Interaction struct {
	A, B          Effect // A with the first level of B's factor and with B's level
	With, Without float64
	Shown         // of the gain With minus Without, among all comparisons of the pair
	Comparisons   int
}

// Shown is a gain with its interval and outcome.
type Shown struct {
	Estimate, Low, High float64 // log ratios, or in the metric's own unit where it can be 0; positive is good
	Outcome             model.Outcome
}

// Factorials returns the effects of the factors of p, for each direction of the objective. It
// returns nil if p is not a grid, its verdicts cannot be trusted, or too few blocks are
// complete.
func Factorials(p model.Plan, runs []model.Run) []Factorial {
	factors, cells := p.Factors, plan.Cells(p.Factors)
	if factors == nil {
		return nil
	}
	if r := Analyse(p, runs); r.Untrustworthy || r.PathChanged {
		return nil
	}
	s := newSession(p, runs)
	s.replay()
	var out []Factorial
	for _, x := range s.series {
		if !x.objective {
			continue
		}
		g := grid{s: s, x: x, factors: factors, cells: cells}
		all := cells
		if !slices.Contains(cells, s.plan.Baseline) {
			all = append(slices.Clone(cells), s.plan.Baseline)
		}
		for _, b := range s.blocks {
			if row, ok := x.row(b, all); ok && !b.null {
				g.rows = append(g.rows, row)
			}
		}
		if len(g.rows) < stats.NormalBlocks {
			continue
		}
		f := Factorial{Direction: x.direction, Metric: x.ID, Blocks: len(g.rows), Factors: factors, Mains: g.mains(), Pairs: g.pairs()}
		if !x.CanBe0 {
			found := stats.Plateau(g.rows, float64(s.plan.Tolerance)/100, s.plan.Confidence)
			for j, name := range cells {
				if found.Passes(j) {
					f.Good = append(f.Good, name)
				}
			}
		}
		out = append(out, f)
	}
	return out
}

// grid is a factorial under construction.
type grid struct {
	s       *session
	x       *series
	factors []model.Factor
	cells   []string
	rows    [][]float64 // by block: log values of the cells, the last factor varying fastest
}

// level returns the level of factor f in cell i.
func (g *grid) level(i, f int) int {
	for n := len(g.factors) - 1; n > f; n-- {
		i /= len(g.factors[n].Levels)
	}
	return i % len(g.factors[f].Levels)
}

// mean returns, per block, the mean of the cells that have these levels, by factor.
func (g *grid) mean(at map[int]int) []float64 {
	out := make([]float64, len(g.rows))
	for b, row := range g.rows {
		sum, n := 0.0, 0.0
		for i := range g.cells {
			matches := true
			for f, l := range at {
				matches = matches && g.level(i, f) == l
			}
			if matches {
				sum, n = sum+row[i], n+1
			}
		}
		out[b] = sum / n
	}
	return out
}

func minus(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

func (g *grid) mains() []Effect {
	var out []Effect
	for f, factor := range g.factors {
		for l := 1; l < len(factor.Levels); l++ {
			d := minus(g.mean(map[int]int{f: l}), g.mean(map[int]int{f: 0}))
			out = append(out, Effect{Factor: f, Level: l, Shown: g.shown(d, 1)})
		}
	}
	return out
}

// pairs returns the strongest interaction of each pair of factors.
func (g *grid) pairs() []Interaction {
	var out []Interaction
	for f := range g.factors {
		for h := f + 1; h < len(g.factors); h++ {
			levels, others := len(g.factors[f].Levels), len(g.factors[h].Levels)
			var strongest *Interaction
			for l := 1; l < levels; l++ {
				for m := 1; m < others; m++ {
					without := minus(g.mean(map[int]int{f: l, h: 0}), g.mean(map[int]int{f: 0, h: 0}))
					with := minus(g.mean(map[int]int{f: l, h: m}), g.mean(map[int]int{f: 0, h: m}))
					one := Interaction{
						A: Effect{Factor: f, Level: l}, B: Effect{Factor: h, Level: m}, Comparisons: (levels - 1) * (others - 1),
						With: g.x.unscaled(stats.PseudoMedian(with)), Without: g.x.unscaled(stats.PseudoMedian(without)),
					}
					one.Shown = g.shown(minus(with, without), one.Comparisons)
					if strongest == nil || distance(one.Shown) > distance(strongest.Shown) {
						strongest = &one
					}
				}
			}
			if strongest != nil {
				out = append(out, *strongest)
			}
		}
	}
	return out
}

// distance is how far an interval lies from 0; it is negative if the interval contains 0.
func distance(s Shown) float64 { return max(s.Low, -s.High) }

// shown judges differences per block like those of a setting, at alpha divided by comparisons
// (statistics.md sections 4.2, 4.3 and 5.2).
func (g *grid) shown(d []float64, comparisons int) Shown {
	s, x, alpha := g.s, g.x, g.s.alpha/float64(comparisons)
	estimate, low, high := stats.PseudoMedian(d), 0.0, 0.0
	if s.plan.Mode == model.Sequential {
		ev := stats.NewEvidence(x.margin, alpha)
		for _, v := range d {
			ev.Add(v)
		}
		i := ev.Interval(0)
		low, high = i.Low, i.High
	} else {
		e, i, _ := s.estimate(&side{d: d}, 1-alpha)
		estimate, low, high = e, float64(i.Low), float64(i.High)
	}
	out := Shown{Estimate: x.unscaled(estimate), Low: x.unscaled(low), High: x.unscaled(high), Outcome: model.Undecided}
	switch {
	case len(d) < stats.RankBlocks:
	case low > rounding:
		out.Outcome = model.Better
	case high < -rounding:
		out.Outcome = model.Worse
	case -x.margin < low && high < x.margin:
		out.Outcome = model.Equivalent
	}
	return out
}

// Best returns the setting with the largest gain among those that may be kept: better in one
// direction of the objective, worse in none, with all guards holding. It returns "" if there is
// no such setting.
func Best(p model.Plan, all []model.Verdict) string {
	best, most := "", 0.0
	for _, name := range candidatesOf(p) {
		sum := 0.0
		for _, v := range all {
			if v.Setting == name && p.DecidedBy(&v) {
				sum += v.Estimate
			}
		}
		if sum > most && MayKeep(p.Decides(), all, name).May() {
			best, most = name, sum
		}
	}
	return best
}

// Choice returns the combination that answers an experiment over several factors, among those
// that may be kept: the smallest that is good enough in every direction, or, while that is
// undecided, the one with the largest gain; "" if there is none.
func Choice(s model.Session) (name string, enough bool) {
	for i, l := range s.Plateaus {
		if !l.Decided || l.Leave || i > 0 && l.Level != name {
			return Best(s.Plan, s.Verdicts), false
		}
		name = l.Level
	}
	if name != "" && MayKeep(s.Plan.Decides(), s.Verdicts, name).May() {
		return name, true
	}
	return Best(s.Plan, s.Verdicts), false
}
