package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/analysis"
	"linerate/internal/core/knob"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
)

// Grid is the report of an experiment over all combinations of several settings.
type Grid struct {
	Factors    []GridFactor `json:"factors"`
	Effects    []GridEffect `json:"effects"`
	Conclusion string       `json:"conclusion,omitempty"` // "" where no verdict of the session counts
}

// GridFactor says what the short names of one factor stand for.
type GridFactor struct {
	Name   string       `json:"name"` // "A"
	Host   model.Host   `json:"host,omitempty"`
	Knob   model.KnobID `json:"knob"`
	Levels []string     `json:"levels"` // canonical values; the first is A1
	Shown  []string     `json:"-"`      // the same as people read them
	Text   string       `json:"text"`   // "A: tcp.recv_buffer_max of nas, A1 is 64 KiB, A2 is 1 MiB"
}

// GridEffect is what a level of one factor does, or of two together, as a sentence.
type GridEffect struct {
	Direction model.Direction `json:"direction"`
	Metric    model.Metric    `json:"metric"`
	Of        []string        `json:"of"` // levels: one for a main effect, two for an interaction
	Blocks    int             `json:"blocks"`
	Outcome   model.Outcome   `json:"outcome"`
	Estimate  float64         `json:"estimate"` // as of a verdict
	Low       model.Bound     `json:"low"`
	High      model.Bound     `json:"high"`
	Text      string          `json:"text"`
	Said      string          `json:"-"` // for people, without the interval
}

// grid is nil of a session that is no grid.
func (b *builder) grid() *Grid {
	factors, _ := plan.Grid(b.s.Plan.Settings)
	if factors == nil {
		return nil
	}
	g := &Grid{Factors: []GridFactor{}, Effects: []GridEffect{}}
	for n, f := range factors {
		text := []string{fmt.Sprintf("%s: %s", plan.Letter(n), f.Knob)}
		k, ok := b.catalogue.ByID(f.Knob)
		switch {
		case f.Host != "":
			text[0] += " of " + b.name(f.Host)
		case ok && k.Scope != knob.ScopeFlow: // what no catalogue has is an engine's own
			text[0] += " of both hosts"
		}
		var shown []string
		for i, v := range f.Levels {
			said := k.Format(v)
			if f.Knob == model.FarEnd {
				said = plan.EndName(v)
			}
			shown = append(shown, said)
			text = append(text, plan.Code(n, i)+" is "+said)
		}
		g.Factors = append(g.Factors, GridFactor{plan.Letter(n), f.Host, f.Knob, f.Levels, shown, strings.Join(text, ", ")})
	}
	found := analysis.Factorials(b.s.Plan, b.s.Runs)
	for _, f := range found {
		g.Effects = append(g.Effects, b.effects(f)...)
	}
	g.Conclusion = b.conclusion(found)
	return g
}

// effects are the sentences on what each factor does, and on each pair of them.
func (b *builder) effects(f analysis.Factorial) []GridEffect {
	i, what := metric.Describe(f.Metric), strings.TrimSpace(metric.Name(f.Metric)+" "+b.toward(f.Direction))
	var out []GridEffect
	add := func(s analysis.Shown, text, said string, of ...string) {
		out = append(out, GridEffect{f.Direction, f.Metric, of, f.Blocks, s.Outcome, s.Estimate, model.Bound(s.Low), model.Bound(s.High), text, said})
	}
	for _, m := range f.Mains {
		level := plan.Code(m.Factor, m.Level)
		text := fmt.Sprintf("%s, %s against %s: %s (%s)", what, level, plan.Code(m.Factor, 0), i.ChangeText(m.Estimate, m.Low, m.High), i.RangeText(m.Estimate, m.Low, m.High))
		switch m.Outcome {
		case model.Equivalent:
			text += ", no difference larger than the margin"
		case model.Undecided:
			text += ", not decided"
		case model.Better, model.Worse:
		}
		add(m.Shown, text, fmt.Sprintf("%s, %s against %s: %s", what, level, plan.Code(m.Factor, 0), effect(i, m.Shown)), level)
	}
	for _, p := range f.Pairs {
		a, c := plan.Code(p.A.Factor, p.A.Level), plan.Code(p.B.Factor, p.B.Level)
		change := func(gain float64) string { return i.ChangeText(gain, gain+p.Low-p.Estimate, gain+p.High-p.Estimate) }
		pair := plan.Letter(p.A.Factor) + " and " + plan.Letter(p.B.Factor)
		var text, said string
		switch p.Outcome {
		case model.Better, model.Worse:
			brief := func(gain float64) string { return i.SaidBriefly(gain, gain+p.Low-p.Estimate, gain+p.High-p.Estimate) }
			said = fmt.Sprintf("%s depend on each other: with %s, %s is %s; with %s, %s", pair, plan.Code(p.B.Factor, 0), a, brief(p.Without), c, brief(p.With))
			text = fmt.Sprintf("%s depend on each other: with %s, %s gives %s; with %s, %s", pair, plan.Code(p.B.Factor, 0), a, change(p.Without), c, change(p.With))
		case model.Equivalent:
			text = fmt.Sprintf("%s do not depend on each other: what one gives, the other does not change by more than the margin", pair)
		case model.Undecided:
			text = fmt.Sprintf("whether %s depend on each other is not decided after %s", pair, count(f.Blocks, "block"))
		}
		add(p.Shown, text, cmp.Or(said, text), a, c)
	}
	return out
}

// effect is what a level does, for people.
func effect(i metric.Info, s analysis.Shown) string {
	switch s.Outcome {
	case model.Equivalent:
		return "no difference that matters"
	case model.Undecided:
		return "not decided"
	case model.Better, model.Worse:
	}
	return i.Said(s.Estimate, s.Low, s.High)
}

// conclusion says which combination is the best, against the baseline, in a sentence.
func (b *builder) conclusion(found []analysis.Factorial) string {
	if b.untrustworthy() != "" || len(b.s.Verdicts) == 0 {
		return ""
	}
	baseline := b.s.Plan.Baseline
	best := analysis.Best(b.s.Plan, b.s.Verdicts)
	if best == "" {
		for _, v := range b.s.Verdicts {
			if b.s.Plan.DecidedBy(&v) && v.Outcome == model.Undecided {
				return fmt.Sprintf("no combination is shown to be better than %s", baseline)
			}
		}
		return fmt.Sprintf("leave it: no combination that may be kept is better than %s", baseline)
	}
	var parts, others []string
	for _, v := range b.s.Verdicts {
		if v.Setting == best && v.Metric == b.s.Plan.Decides() {
			r := b.row(v)
			parts = append(parts, fmt.Sprintf("%s %s", strings.TrimSpace(metric.Name(v.Metric)+" "+b.toward(v.Direction)), r.Gain))
		}
	}
	for n, f := range found {
		others = slices.DeleteFunc(others, func(name string) bool { return n > 0 && !slices.Contains(f.Good, name) })
		for _, name := range f.Good {
			if n == 0 && name != best && name != baseline {
				others = append(others, name)
			}
		}
	}
	text := fmt.Sprintf("%s is the best combination: against %s, %s", best, baseline, strings.Join(parts, ", "))
	if len(others) > 0 {
		text += fmt.Sprintf("; as good, within %s: %s", b.s.Plan.Tolerance, strings.Join(others, ", "))
	}
	return text
}
