package report

import (
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/analysis"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/plan"
	"linerate/internal/core/profile"
)

// said formats verdict v on the objective: the effect, its lower bound, and whether it is
// decided. "597.4 Mbit/s, 1.87 times as fast, at least 1.83; 8 blocks, decided".
func (b *builder) said(v model.Verdict) string {
	text := b.judged(v)
	if value, ok := b.median(v.Setting, v); ok {
		text = value + ", " + text
	}
	return text
}

// judged returns the text of said without the value itself.
func (b *builder) judged(v model.Verdict) string {
	switch {
	case v.Blocks > 0 && b.untrustworthy() != "":
		return "no verdict, because the session is untrustworthy"
	case v.Blocks > 0 && v.Outcome == model.Undecided:
		return b.open(v)
	case v.Outcome == model.Better:
		return metric.Said(v, b.s.Plan.Margin) + b.hindered(v)
	}
	return metric.Said(v, b.s.Plan.Margin)
}

// open says what an undecided verdict would need.
func (b *builder) open(v model.Verdict) string {
	if distant(v.MoreBlocks, v.Blocks) {
		return "not decided, and too close for this noise: " + b.moreBlocks(v.MoreBlocks)
	}
	if v.MoreBlocks > 0 {
		return "not decided: " + b.moreBlocks(v.MoreBlocks)
	}
	if reason(v) == "" {
		return metric.Said(v, b.s.Plan.Margin)
	}
	return "not decided: " + v.Reason
}

// worseElsewhere names the directions in which the objective is worse for a setting.
func (b *builder) worseElsewhere(v model.Verdict) []string {
	var out []string
	for _, o := range b.s.Verdicts {
		if o.Setting == v.Setting && o.Metric == v.Metric && !o.IsTwin && o.Outcome == model.Worse && o.Direction != v.Direction {
			out = append(out, "it is worse "+b.toward(o.Direction))
		}
	}
	return out
}

// hindered names the guards that prevent keeping a better setting.
func (b *builder) hindered(v model.Verdict) string {
	var harm, open []string
	keep := analysis.MayKeep(v.Metric, b.s.Verdicts, v.Setting)
	harm = append(harm, b.worseElsewhere(v)...)
	for _, g := range keep.Open {
		open = append(open, b.guardWords(g))
	}
	for _, g := range keep.Harms {
		i := metric.Describe(g.Metric)
		what := i.Name
		if g.Direction != v.Direction {
			what += " " + b.toward(g.Direction)
		}
		change := i.SaidBriefly(g.Estimate, float64(g.Interval.Low), float64(g.Interval.High))
		harm = append(harm, fmt.Sprintf("%s is %s, and less than %s is allowed", what, change, i.HarmText(g.Guard.Margin)))
	}
	switch {
	case len(harm) > 0: // regardless of the rest
		return "; but " + strings.Join(harm, "; ")
	case len(open) > 0:
		return "; may not be kept yet: " + strings.Join(open, ", ")
	}
	return ""
}

// patience is the ratio to the blocks so far from which waiting for a decision is not
// recommended (p): an effect that takes so long to detect is hardly worth a change.
const patience = 10

// distant reports whether waiting for that many more blocks is not recommended.
func distant(more, blocks int) bool { return blocks > 0 && more > patience*blocks }

// lastFailure returns the reason of the last failed run, after a semicolon; "" if no run has
// one.
func (b *builder) lastFailure() string {
	for _, r := range slices.Backward(b.s.Runs) {
		if r.State == model.RunInvalid && r.Reason != "" {
			return "; the last one: " + r.Reason
		}
	}
	return ""
}

// advice is the recommendation after an experiment.
type advice struct {
	text  string // a sentence; "" if there is none, or if the conclusion or a command covers it
	takes string // the recommended setting
	open  bool   // something is undecided
}

func (b *builder) advice() advice {
	p, all := &b.s.Plan, b.s.Verdicts
	if b.s.Kind != model.KindRun || b.s.State != model.SessionDone || len(all) == 0 {
		return advice{}
	}
	if len(b.s.Runs) > 0 && len(b.counted) == 0 {
		return advice{text: "nothing was measured: no block counts, since a run failed in each" + b.lastFailure()}
	}
	if b.untrustworthy() != "" {
		return advice{text: "do not use these numbers: find out what else uses these hosts or the path, then measure again"}
	}
	best := analysis.Best(*p, all)
	grid := len(p.Factors) > 0
	more, most := b.openFor(true)
	soon, soonest := b.openFor(false)
	if soon > 0 {
		most = soonest // longer waits are not recommended
	}
	if grid && best != "" {
		return advice{}
	}
	if name, _ := profile.Chosen(*b.s); name != "" {
		return advice{text: name + " is the one to keep" + b.because(name), takes: name}
	}
	for _, l := range b.s.Plateaus {
		if l.Decided && l.Leave {
			return advice{text: "leave it as it is: " + levelReason(l), takes: l.Baseline}
		}
	}
	if soon == 0 {
		for _, v := range all {
			if keep := analysis.MayKeep(v.Metric, all, v.Setting); b.decisive(model.Better)(v) && len(keep.Open) > 0 && keep.Ask() {
				text := fmt.Sprintf("decide about %s yourself: it is better, but %s", v.Setting, b.guardWords(keep.Open[0]))
				if !strings.HasPrefix(b.s.Far, "lab:") { // a lab keeps nothing
					text += fmt.Sprintf("; linerate keep %s --despite-guards keeps it", b.s.ID)
				}
				return advice{text: text}
			}
		}
	}
	leave := func(format string, args ...any) advice {
		return advice{text: "leave it as it is: " + fmt.Sprintf(format, args...)}
	}
	switch {
	case best == "" && more > 0 && soon == 0:
		return leave("nothing is shown to be better than %s, and to decide it takes about %s (%s)", p.Baseline, plain.Count(roughly(most), "block"), b.lasting(roughly(most)))
	case len(b.further()) > 0: // the command to continue covers it
		return advice{text: "not everything is decided", open: true}
	case best == "" && b.full():
		return leave("the path is used up, and nothing that was tried is shown to be better")
	case more > 0 && most <= plan.MaxBlocks:
		return advice{text: fmt.Sprintf("not everything is decided: that takes about %s (%s)", plain.Count(most, "block"), b.lasting(most)), open: true}
	case grid:
		return advice{}
	case best != "":
		if len(b.s.Plateaus) == 1 && b.s.Plateaus[0].Level != "" {
			best = b.s.Plateaus[0].Level
		}
		return advice{text: "use " + best + b.because(best), takes: best}
	case slices.ContainsFunc(all, b.decisive(model.Better)):
		return leave("what is better does harm that a guard forbids")
	case slices.ContainsFunc(all, b.decisive(model.Undecided)):
		return leave("nothing is shown to be better than %s", p.Baseline)
	}
	return leave("nothing that was tried is better than %s", p.Baseline)
}

// decisive returns whether a verdict is on the objective, with this outcome.
func (b *builder) decisive(o model.Outcome) func(model.Verdict) bool {
	return func(v model.Verdict) bool { return b.s.Plan.DecidedBy(&v) && v.Outcome == o }
}

// because returns the reason to take a setting.
func (b *builder) because(name string) string {
	for _, l := range b.s.Plateaus {
		if l.Decided && l.Level == name {
			return ": it is " + levelReason(l)
		}
	}
	return ": it is better, and no guard forbids it"
}

// levelReason returns why a level, or the baseline, is good enough.
func levelReason(l model.Plateau) string {
	if l.Leave {
		return fmt.Sprintf("%s is within %s of the best", l.Baseline, l.Tolerance)
	}
	return fmt.Sprintf("the smallest level within %s of the best", l.Tolerance)
}

// full reports whether goodput is the objective and the first finding of each direction says
// that the path is fully used.
func (b *builder) full() bool {
	shown := map[model.Direction]bool{}
	for _, f := range b.s.Findings {
		if !shown[f.Direction] && (f.Kind != model.FindingFull || f.Loss) {
			return false
		}
		shown[f.Direction] = true
	}
	return len(shown) > 0 && b.s.Plan.Decides() == model.Goodput
}

// openFor estimates how many more blocks decide everything open, that is verdicts on the
// objective, and guards of better settings, and how many that makes in total. 0 for nothing.
// Without withDistant it counts only what is worth waiting for.
func (b *builder) openFor(withDistant bool) (more, most int) {
	for _, v := range b.s.Verdicts {
		n := 0
		if b.decisive(model.Undecided)(v) {
			n = v.MoreBlocks
		}
		if b.decisive(model.Better)(v) {
			if keep := analysis.MayKeep(v.Metric, b.s.Verdicts, v.Setting); len(keep.Harms) == 0 {
				for _, g := range keep.Open {
					n = max(n, g.Guard.MoreBlocks)
				}
			}
		}
		if n > 0 && (withDistant || !distant(n, v.Blocks)) {
			more, most = max(more, n), max(most, v.Blocks+n)
		}
	}
	return more, most
}
