package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/analysis"
	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/plan"
)

// Grid is the report of an experiment over all combinations of several settings.
type Grid struct {
	Factors    []GridFactor `json:"factors"`
	Tables     []GridTable  `json:"tables"` // with several factors, one for each direction
	Effects    []GridEffect `json:"effects"`
	Conclusion string       `json:"conclusion,omitempty"` // "" if no verdict of the session counts
	best       string       // the combination named in the conclusion
}

// GridFactor describes a factor and its levels.
type GridFactor struct {
	Name   string       `json:"name"` // "mtu"
	Host   model.Host   `json:"host,omitempty"`
	Knob   model.KnobID `json:"knob,omitempty"` // "" for sets
	Levels []string     `json:"levels"`         // canonical values, or names of sets
	Shown  []string     `json:"-"`              // the same for display
	Text   string       `json:"text"`           // "mtu is link.mtu of both hosts: 1500 B, 9000 B"
}

// GridEffect is the effect of a level of one factor, or of two together, as a sentence.
type GridEffect struct {
	Direction model.Direction `json:"direction"`
	Metric    model.Metric    `json:"metric"`
	Of        []string        `json:"of"` // levels: one for a main effect, two for an interaction
	Blocks    int             `json:"blocks"`
	Outcome   model.Outcome   `json:"outcome"`
	Estimate  float64         `json:"estimate"` // as in a verdict
	Low       model.Bound     `json:"low"`
	High      model.Bound     `json:"high"`
	Text      string          `json:"text"`
	Said      string          `json:"-"` // without the interval
}

// grid returns nil for a session that is not a grid.
func (b *builder) grid() *Grid {
	if len(b.s.Plan.Factors) == 0 {
		return nil
	}
	g := &Grid{Factors: []GridFactor{}, Effects: []GridEffect{}, Tables: b.gridTables()}
	for _, f := range b.s.Plan.Factors {
		g.Factors = append(g.Factors, b.gridFactor(f))
	}
	found := analysis.Factorials(b.s.Plan, b.s.Runs)
	for _, f := range found {
		g.Effects = append(g.Effects, b.effects(f)...)
	}
	g.best, g.Conclusion = b.conclusion(found)
	return g
}

func (b *builder) gridFactor(f model.Factor) GridFactor {
	out := GridFactor{Name: f.Name, Host: f.Host, Knob: f.Knob}
	values := lists.Each(f.Levels, func(l model.Level) string { return l.Value })
	ends := model.EndNames(values)
	for i, l := range f.Levels {
		switch f.Knob {
		case "":
			out.Levels = append(out.Levels, l.Name)
			out.Shown = append(out.Shown, l.Name+" is "+cmp.Or(b.setText(i), "the hosts as they are"))
		case model.FarEnd:
			out.Levels, out.Shown = append(out.Levels, l.Value), append(out.Shown, ends[i])
		default:
			k, _ := b.catalogue.ByID(f.Knob)
			out.Levels, out.Shown = append(out.Levels, l.Value), append(out.Shown, k.Format(l.Value))
		}
	}
	if f.Knob == "" {
		out.Text = strings.Join(out.Shown, "; ")
		return out
	}
	what := string(f.Knob) + b.scope(f.Host, f.Knob)
	if what != f.Name {
		what = f.Name + " is " + what
	}
	out.Text = what + ": " + strings.Join(out.Shown, ", ")
	return out
}

// scope says where a knob is set: " of nas", " of both hosts", or "" for the flow.
func (b *builder) scope(h model.Host, id model.KnobID) string {
	k, known := b.catalogue.ByID(id)
	switch {
	case h != "":
		return " of " + b.names.Of(h)
	case known && k.Scope != knob.ScopeFlow: // a knob outside the catalogue belongs to an engine
		return " of both hosts"
	}
	return ""
}

// setText describes the assignments of set i, the first factor: those of its first combination,
// without the other factors'.
func (b *builder) setText(i int) string {
	cells := plan.Cells(b.s.Plan.Factors)
	s, _ := b.s.Plan.Setting(cells[i*len(cells)/len(b.s.Plan.Factors[0].Levels)])
	var out []string
	for n, a := range s.Assignments {
		if slices.ContainsFunc(b.s.Plan.Factors, func(f model.Factor) bool { return f.Knob == a.Knob && (f.Host == "" || f.Host == a.Host) }) {
			continue
		}
		same := func(o model.Assignment) bool { return o.Knob == a.Knob && o.Value == a.Value }
		host := a.Host
		if slices.ContainsFunc(s.Assignments[:n], same) {
			continue // described with the other host's
		}
		if slices.ContainsFunc(s.Assignments[n+1:], same) {
			host = ""
		}
		k, _ := b.catalogue.ByID(a.Knob)
		out = append(out, string(a.Knob)+b.scope(host, a.Knob)+" "+k.Format(a.Value))
	}
	return strings.Join(out, ", ")
}

// effects returns sentences on the effect of each factor, and of each pair of them.
func (b *builder) effects(f analysis.Factorial) []GridEffect {
	i, what := metric.Describe(f.Metric), strings.TrimSpace(metric.Name(f.Metric)+" "+b.toward(f.Direction))
	var out []GridEffect
	add := func(s analysis.Shown, text, said string, of ...string) {
		out = append(out, GridEffect{f.Direction, f.Metric, of, f.Blocks, s.Outcome, s.Estimate, model.Bound(s.Low), model.Bound(s.High), text, said})
	}
	for _, m := range f.Mains {
		level, first := f.Factors[m.Factor].Levels[m.Level].Name, f.Factors[m.Factor].Levels[0].Name
		text := fmt.Sprintf("%s, %s against %s: %s (%s)", what, level, first, i.ChangeText(m.Estimate, m.Low, m.High), i.RangeText(m.Estimate, m.Low, m.High))
		switch m.Outcome {
		case model.Equivalent:
			text += ", no difference larger than the margin"
		case model.Undecided:
			text += ", not decided"
		case model.Better, model.Worse:
		}
		add(m.Shown, text, fmt.Sprintf("%s, %s against %s: %s", what, level, first, effect(i, m.Shown)), level)
	}
	for _, p := range f.Pairs {
		x, y := f.Factors[p.A.Factor], f.Factors[p.B.Factor]
		a, c, without := x.Levels[p.A.Level].Name, y.Levels[p.B.Level].Name, y.Levels[0].Name
		change := func(gain float64) string { return i.ChangeText(gain, gain+p.Low-p.Estimate, gain+p.High-p.Estimate) }
		pair := x.Name + " and " + y.Name
		var text, said string
		switch p.Outcome {
		case model.Better, model.Worse:
			brief := func(gain float64) string { return i.SaidBriefly(gain, gain+p.Low-p.Estimate, gain+p.High-p.Estimate) }
			said = fmt.Sprintf("%s depend on each other: with %s, %s is %s; with %s, %s", pair, without, a, brief(p.Without), c, brief(p.With))
			text = fmt.Sprintf("%s depend on each other: with %s, %s gives %s; with %s, %s", pair, without, a, change(p.Without), c, change(p.With))
		case model.Equivalent:
			text = fmt.Sprintf("%s do not depend on each other: what one gives, the other does not change by more than the margin", pair)
		case model.Undecided:
			text = fmt.Sprintf("whether %s depend on each other is not decided after %s", pair, plain.Count(f.Blocks, "block"))
		}
		add(p.Shown, text, cmp.Or(said, text), a, c)
	}
	return out
}

// effect describes the effect of a level.
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

// conclusion says which combination is the best, compared with the baseline, in a sentence.
func (b *builder) conclusion(found []analysis.Factorial) (best, text string) {
	if b.untrustworthy() != "" || len(b.s.Verdicts) == 0 {
		return "", ""
	}
	baseline := b.s.Plan.Baseline
	best, enough := analysis.Choice(*b.s)
	if best == "" {
		for _, v := range b.s.Verdicts {
			if b.s.Plan.DecidedBy(&v) && v.Outcome == model.Undecided {
				if slices.ContainsFunc(b.s.Verdicts, b.decisive(model.Better)) {
					return "", fmt.Sprintf("no combination that may be kept is shown to be better than %s", baseline)
				}
				return "", fmt.Sprintf("no combination is shown to be better than %s", baseline)
			}
		}
		return "", fmt.Sprintf("leave it: no combination that may be kept is better than %s", baseline)
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
	merit := "the best combination"
	switch {
	case enough:
		merit = "enough"
	case b.refusedAbove(best):
		merit += " that may be kept"
	}
	text = fmt.Sprintf("%s is %s: against %s, %s", best, merit, baseline, strings.Join(parts, ", "))
	if set, _ := b.s.Plan.Setting(best); b.s.Plan.Factors[0].Knob == "" && !slices.ContainsFunc(set.Assignments, func(a model.Assignment) bool { return a.Host != "" }) {
		text += "; it leaves the hosts as they are"
	}
	if len(others) > 0 {
		text += fmt.Sprintf("; as good, within %s: %s", b.s.Plan.Tolerance, strings.Join(others, ", "))
	}
	return best, text
}

// refusedAbove reports whether a setting that may not be kept gained more than name.
func (b *builder) refusedAbove(name string) bool {
	gained := func(v model.Verdict) bool { return b.s.Plan.DecidedBy(&v) && v.Outcome == model.Better }
	for _, v := range b.s.Verdicts {
		for _, w := range b.s.Verdicts {
			if v.Setting == name && gained(v) && gained(w) && w.Direction == v.Direction && w.Estimate > v.Estimate && !analysis.MayKeep(w.Metric, b.s.Verdicts, w.Setting).May() {
				return true
			}
		}
	}
	return false
}
