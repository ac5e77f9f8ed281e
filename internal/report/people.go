package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"linerate/internal/core/analysis"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/profile"
	"linerate/internal/core/units"
)

// asFactor is the rise from which a change is said as a factor: "1.87 times as fast"
// is read at once, "86.8 % faster" is not. Log ratio.
var asFactor = math.Log(1.5)

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
	blocks, info := count(v.Blocks, "block"), metric.Describe(v.Metric)
	switch {
	case v.Blocks == 0:
		return "no block yet"
	case b.untrustworthy() != "":
		return "no verdict, because the session is untrustworthy"
	case v.Outcome == model.Equivalent:
		return fmt.Sprintf("no difference that matters (%s); %s", b.atMost(v), blocks)
	case v.Outcome != model.Better && v.Outcome != model.Worse:
		return b.open(v)
	}
	text := changed(info, v)
	if v.Size == "small" {
		text += fmt.Sprintf(", too little to matter (margin %s)", b.s.Plan.Margin)
	}
	text += "; " + blocks + ", decided"
	if v.Outcome == model.Better {
		text += b.hindered(v)
	}
	return text
}

// open says of a verdict that is not decided what it would take.
func (b *builder) open(v model.Verdict) string {
	if v.MoreBlocks > 0 {
		return "not decided: " + b.moreBlocks(v.MoreBlocks)
	}
	switch after, ok := strings.CutPrefix(v.Reason, Words(v)); {
	case v.Reason == "":
		return "not decided after " + count(v.Blocks, "block")
	case ok:
		return "not decided" + after
	}
	return "not decided: " + v.Reason
}

// hindered says which guards are in the way of keeping a setting that is better.
func (b *builder) hindered(v model.Verdict) string {
	var harm, open []string
	for _, g := range analysis.Refused(b.s.Verdicts, v.Setting) {
		if g.Guard.State != model.GuardViolated {
			open = append(open, b.guardWords(g))
			continue
		}
		i := metric.Describe(g.Metric)
		what := i.Name
		if g.Direction != v.Direction {
			what += " " + b.label(g.Direction)
		}
		change, _, _ := strings.Cut(changed(i, g), ", at least ")
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

// changed says by how much the metric of v is another one, and how much that is at
// least: "1.87 times as fast, at least 1.83", "10.0 % faster, at least 6.7 %".
func changed(i metric.Info, v model.Verdict) string {
	change, near, far := i.Change(v.Estimate), i.Change(float64(v.Interval.Low)), i.Change(float64(v.Interval.High))
	if v.Estimate < 0 {
		near, far = far, near
	}
	more, less, times := "higher", "lower", "as high"
	if v.Metric == model.Goodput {
		more, less, times = "faster", "slower", "as fast"
	}
	sure := near*change > 0 && !math.IsInf(near, 0) // the interval leaves out no change
	if !i.CanBe0 && change >= asFactor {
		width := math.Abs(math.Exp(far) - math.Exp(near))
		text := units.FormatFactor(change, width) + " " + times
		if sure {
			text += ", at least " + strings.TrimSuffix(units.FormatFactor(near, width), " times")
		}
		return text
	}
	text := brief(i, change) + " " + more
	if change < 0 {
		text = brief(i, change) + " " + less
	}
	if sure {
		text += ", at least " + brief(i, near)
	}
	return text
}

// brief is the size of a change with two significant digits, or whole numbers.
func brief(i metric.Info, change float64) string {
	shown := math.Abs(i.Shown(change))
	if math.IsNaN(shown) || math.IsInf(shown, 0) {
		return "unknown"
	}
	return strings.TrimSpace(units.Round(shown, max(shown, finestShown)) + " " + i.ShownUnit())
}

// atMost bounds a difference that does not matter: by what the interval leaves, or by
// the margin where that is less.
func (b *builder) atMost(v model.Verdict) string {
	i := metric.Describe(v.Metric)
	low, high := i.Change(float64(v.Interval.Low)), i.Change(float64(v.Interval.High))
	if math.Abs(i.Shown(low)) > math.Abs(i.Shown(high)) {
		high = low
	}
	most := math.Abs(i.Shown(high))
	if margin := float64(b.s.Plan.Margin); math.IsInf(most, 0) || math.IsNaN(most) || !i.CanBe0 && most > margin {
		return fmt.Sprintf("less than %s", b.s.Plan.Margin)
	}
	return "at most " + brief(i, high)
}

// finestShown is the finest that a change is shown to, in what people see.
const finestShown = 0.01

// advice is what to do after an experiment, in a sentence; "" where the session has
// none, or where its conclusion or a command says it.
func (b *builder) advice() string {
	p, all := &b.s.Plan, b.s.Verdicts
	if b.s.Kind != model.KindRun || b.s.State != model.SessionDone || len(all) == 0 {
		return ""
	}
	if b.untrustworthy() != "" {
		return "do not use these numbers: find out what else uses these hosts or the path, then measure again"
	}
	best := analysis.Best(*p, all)
	_, cells := plan.Grid(p.Settings)
	if cells != nil && best != "" {
		return ""
	}
	if name, _ := profile.Chosen(*b.s); name != "" {
		return name + " is the one to keep" + b.because(name)
	}
	for _, l := range b.s.Plateaus {
		if l.Decided && l.Leave {
			return fmt.Sprintf("leave it as it is: %s is good enough", l.Baseline)
		}
	}
	if len(b.further()) > 0 {
		return "" // which is the command that goes on
	}
	if more, most := b.openFor(); more > 0 && most <= plan.MaxBlocks {
		return fmt.Sprintf("not everything is decided: measure again with --blocks %d, %s", most, b.moreBlocks(more))
	}
	switch {
	case cells != nil:
		return ""
	case best != "" && len(b.s.Plateaus) == 1 && b.s.Plateaus[0].Level != "":
		return "use " + b.s.Plateaus[0].Level + b.because(b.s.Plateaus[0].Level)
	case best != "":
		return "use " + best + b.because(best)
	case slices.ContainsFunc(all, b.decisive(model.Better)):
		return "leave it as it is: what is better does harm that a guard forbids"
	case slices.ContainsFunc(all, b.decisive(model.Undecided)):
		return fmt.Sprintf("leave it as it is: nothing is shown to be better than %s", p.Baseline)
	}
	return fmt.Sprintf("leave it as it is: nothing that was tried is better than %s", p.Baseline)
}

// decisive reports whether a verdict is one on what decides, with this outcome.
func (b *builder) decisive(o model.Outcome) func(model.Verdict) bool {
	return func(v model.Verdict) bool { return v.Metric == b.s.Plan.Decides() && !v.IsTwin && v.Outcome == o }
}

// because is why a setting is the one to take.
func (b *builder) because(name string) string {
	for _, l := range b.s.Plateaus {
		if l.Decided && l.Level == name {
			return ": more than that brings hardly anything"
		}
	}
	return ": it is better, and no guard forbids it"
}

// openFor is about how many blocks it takes until what is open is decided: the verdicts
// of what decides, and the guards of what is better; and how many that makes with those
// that there are. 0 for nothing.
func (b *builder) openFor() (more, most int) {
	for _, v := range b.s.Verdicts {
		n := 0
		if b.decisive(model.Undecided)(v) {
			n = v.MoreBlocks
		}
		if b.decisive(model.Better)(v) {
			for _, g := range analysis.Refused(b.s.Verdicts, v.Setting) {
				if g.Guard.State == model.GuardViolated { // whatever becomes of the others
					n = 0
					break
				}
				n = max(n, g.Guard.MoreBlocks)
			}
		}
		if n > 0 {
			more, most = max(more, n), max(most, v.Blocks+n)
		}
	}
	return more, most
}
