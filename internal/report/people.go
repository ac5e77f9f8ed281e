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

// said is verdict v, of what decides, for people: what it does, how much at least, and
// whether that is decided. "597.4 Mbit/s, 1.87 times as fast, at least 1.83; 8 blocks,
// decided".
func (b *builder) said(v model.Verdict) string {
	text := b.judged(v)
	if value, ok := b.median(v.Setting, v); ok {
		text = value + ", " + text
	}
	return text
}

// judged is said without the value itself.
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

// open says of a verdict that is not decided what it would take.
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

// worseElsewhere names the directions in which a setting is worse in what decides.
func (b *builder) worseElsewhere(v model.Verdict) []string {
	var out []string
	for _, o := range b.s.Verdicts {
		if o.Setting == v.Setting && o.Metric == v.Metric && !o.IsTwin && o.Outcome == model.Worse && o.Direction != v.Direction {
			out = append(out, "it is worse "+b.toward(o.Direction))
		}
	}
	return out
}

// hindered says which guards are in the way of keeping a setting that is better.
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
	case len(harm) > 0: // whatever becomes of the rest
		return "; but " + strings.Join(harm, "; ")
	case len(open) > 0:
		return "; may not be kept yet: " + strings.Join(open, ", ")
	}
	return ""
}

// patience is from how many times the blocks so far on nobody is advised to wait for a
// decision (p): what takes so long to see is hardly worth a change.
const patience = 10

// distant reports whether more blocks, after so many, are what nobody is advised to wait for.
func distant(more, blocks int) bool { return blocks > 0 && more > patience*blocks }

// lastFailure is why the last run that failed did, after a semicolon; "" where no run says.
func (b *builder) lastFailure() string {
	for _, r := range slices.Backward(b.s.Runs) {
		if r.State == model.RunInvalid && r.Reason != "" {
			return "; the last one: " + r.Reason
		}
	}
	return ""
}

// advice is what to do after an experiment.
type advice struct {
	text  string // a sentence; "" where the session has none, or where its conclusion or a command says it
	takes string // the setting that it says to use
	open  bool   // it says that not everything is decided
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
		most = soonest // what takes too long is not worth the wait
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
				if !strings.HasPrefix(b.s.Far, "lab:") { // which keeps nothing
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
	case len(b.further()) > 0: // which is the command that goes on
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

// decisive reports whether a verdict is one on what decides, with this outcome.
func (b *builder) decisive(o model.Outcome) func(model.Verdict) bool {
	return func(v model.Verdict) bool { return b.s.Plan.DecidedBy(&v) && v.Outcome == o }
}

// because is why a setting is the one to take.
func (b *builder) because(name string) string {
	for _, l := range b.s.Plateaus {
		if l.Decided && l.Level == name {
			return ": it is " + levelReason(l)
		}
	}
	return ": it is better, and no guard forbids it"
}

// levelReason is why a level, or the baseline, is good enough.
func levelReason(l model.Plateau) string {
	if l.Leave {
		return fmt.Sprintf("%s is within %s of the best", l.Baseline, l.Tolerance)
	}
	return fmt.Sprintf("the smallest level within %s of the best", l.Tolerance)
}

// full reports whether goodput decides and the first finding of each direction says that
// the path carries what it can.
func (b *builder) full() bool {
	told := map[model.Direction]bool{}
	for _, f := range b.s.Findings {
		if !told[f.Direction] && (f.Kind != model.FindingFull || f.Loss) {
			return false
		}
		told[f.Direction] = true
	}
	return len(told) > 0 && b.s.Plan.Decides() == model.Goodput
}

// openFor is about how many blocks it takes until what is open is decided: the verdicts
// of what decides, and the guards of what is better; and how many that makes with those
// that there are. 0 for nothing. Without what is distant it is of what is worth to wait for.
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
