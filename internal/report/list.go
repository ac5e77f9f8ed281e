package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/diagnose"
	"linerate/internal/core/health"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
	"linerate/internal/report/mesh"
)

// ListItem is one session of a list.
type ListItem struct {
	model.Item
	Goodput []ListRate `json:"goodput,omitempty"` // of the baseline, by direction
	// Values are, for a session without goodput, the median latency by direction, or the
	// requests or connections per second.
	Values  []model.Value `json:"values,omitempty"`
	Verdict string        `json:"verdict,omitempty"` // its result, or why it ended, in a sentence
	// Findings are the limits of its directions, and for a check the lines that are POOR or
	// BAD.
	Findings []ListFinding `json:"findings,omitempty"`
}

// ListFinding is a finding by which a list can be filtered.
type ListFinding struct {
	Code      string          `json:"code"` // of a rule, as B07; for a line of a check its name, as loss
	Direction model.Direction `json:"direction,omitempty"`
	Text      string          `json:"text"` // "receive window", "loss BAD"
	Name      string          `json:"-"`    // display name: for a line of a check its name, whatever its grade
}

// Found reports whether a finding of i has that code, or that text.
func (i ListItem) Found(word string) bool {
	return slices.ContainsFunc(i.Findings, func(f ListFinding) bool {
		return strings.EqualFold(f.Code, word) || strings.Contains(strings.ToLower(f.Text), strings.ToLower(word))
	})
}

// ListRate is the median over the runs of a session in one direction.
type ListRate struct {
	Direction model.Direction `json:"direction"`
	Value     units.BitRate   `json:"value"`
}

// List is the document of a list of sessions, linerate/list/v1.
type List struct {
	Sessions []ListItem `json:"sessions"`
	Now      time.Time  `json:"-"` // the reference time for ages
}

// NewListItem returns a line of a list: the store's item, and what follows from s, which may
// lack hosts and the ends of its runs, except for a check.
func NewListItem(i model.Item, s model.Session) ListItem {
	b := builder{s: &s, names: model.Names{Near: s.Near, Far: model.EndName(s.Far)}, counted: Counted(s.Runs)}
	if strings.HasPrefix(s.Far, "lab:") { // a lab's text contains everything, and once per line is enough
		b.names = model.Names{Near: string(model.Near), Far: string(model.Far)}
	}
	out := ListItem{Item: i}
	for _, f := range s.Findings {
		if one := (ListFinding{f.Rule, f.Direction, f.Limit, f.Limit}); f.Kind != model.FindingFull && !slices.Contains(out.Findings, one) {
			out.Findings = append(out.Findings, one)
		}
	}
	for _, d := range []model.Direction{model.To, model.From} {
		if v := runValues(b.baselineRuns(), d, model.Goodput); len(v) > 0 {
			out.Goodput = append(out.Goodput, ListRate{d, units.BitRate(stats.Median(v))})
		}
	}
	for _, m := range []model.Metric{model.LatencyP50, model.RequestRate, model.ConnectRate} {
		for _, d := range []model.Direction{model.To, model.From} {
			if v := runValues(b.baselineRuns(), d, m); len(v) > 0 && len(out.Goodput) == 0 && (len(out.Values) == 0 || out.Values[0].Metric == m) {
				out.Values = append(out.Values, model.Value{Direction: d, Metric: m, Value: stats.Median(v)})
			}
		}
	}
	switch {
	case i.State == model.SessionDone && i.Runs == 0: // from a version that did not say so
		out.State, out.Verdict = model.SessionFailed, i.Reason
	case i.State == model.SessionRunning, i.State == model.SessionStopped:
		out.Verdict = ending(&s)
	case i.State != model.SessionDone:
		out.Verdict = i.Reason
	case i.Kind == model.KindRun:
		out.Verdict = b.verdictLine()
	case i.Kind == model.KindTest:
		out.Verdict = b.limitLine()
	case i.Kind == model.KindCheck:
		out.Verdict = graded(health.Judge(&s), &out.Findings)
	case s.Mesh != nil:
		out.Verdict = mesh.Of(&s).Line()
	}
	if s.Mesh != nil { // one rate says nothing about many ends
		out.Goodput = nil
	}
	return out
}

// Texts returns the result of each direction, with its unit.
func (i ListItem) Texts() map[model.Direction]string {
	texts := map[model.Direction]string{}
	for _, r := range i.Goodput {
		texts[r.Direction] = r.Value.String()
	}
	for _, v := range i.Values {
		if v.Metric == model.LatencyP50 {
			texts[v.Direction] = units.FormatDuration(time.Duration(v.Value*float64(time.Second))) + " latency"
			continue
		}
		texts[v.Direction] = fmt.Sprintf("%.*f %s/s", map[bool]int{true: 1}[v.Value < 100], v.Value, metric.Describe(v.Metric).Short)
	}
	return texts
}

// graded lists the lines of a check that are POOR or BAD, and adds them to findings.
func graded(lines []health.Line, findings *[]ListFinding) string {
	var found []string
	for _, l := range lines {
		if l.State == health.Poor || l.State == health.Bad {
			found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s %s", l.Thing, l.Direction, l.State)))
			*findings = append(*findings, ListFinding{l.Thing, l.Direction, l.Thing + " " + string(l.State), l.Thing})
		}
	}
	if len(found) == 0 {
		return "nothing is POOR or BAD"
	}
	return strings.Join(found, ", ")
}

// Line summarises a search and its gain in one line.
func (t Tuned) Line() string {
	parts := []string{t.Headline}
	for i := 1; i < len(t.Measured); i += 2 {
		if after := t.Measured[i]; after.Outcome != model.Equivalent && after.Outcome != "" {
			parts = append(parts, fmt.Sprintf("%s %s -> %s: %s", after.toward, t.Measured[i-1].value, after.value, after.said))
		}
	}
	return strings.Join(parts, "; ")
}

// What describes a session in a sentence: where it was and its result.
func (i ListItem) What() string {
	where := i.Far
	switch {
	case i.Kind == model.KindServed:
		where = "client " + i.Near
	case i.Near != i.Far && i.Near != model.ThisMachine && i.Near != "":
		where = i.Near + " -> " + i.Far
	}
	if i.Title != "" {
		where += fmt.Sprintf(" (%s)", i.Title)
	}
	if i.Verdict == "" {
		return where
	}
	return where + ": " + i.Verdict
}

// verdictLine summarises an experiment in a sentence.
func (b *builder) verdictLine() string {
	if b.untrustworthy() != "" {
		return "not to be believed: the baseline differs from itself"
	}
	var parts []string
	for _, t := range b.tables() {
		if !t.Objective {
			continue
		}
		text := t.Conclusion()
		if len(b.s.Plan.Directions) > 1 {
			text = b.toward(t.Direction) + ": " + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// Conclusion names the setting of a table with the largest gain, or counts the verdicts.
func (t Table) Conclusion() string {
	var best *Row
	better, candidates := 0, 0
	counts := map[model.Outcome]int{}
	for i, r := range t.Rows {
		if r.IsTwin {
			continue
		}
		candidates++
		counts[r.Outcome]++
		if r.Outcome != model.Better {
			continue
		}
		better++
		if best == nil || (float64(r.Change) > float64(best.Change)) == (t.LowerIs == "worse") {
			best = &t.Rows[i]
		}
	}
	if best != nil {
		text := fmt.Sprintf("%s is better: %s", best.Setting, best.Gain)
		switch {
		case best.Elsewhere:
			text += ", but " + best.Refused[0]
		case best.Harms:
			text += ", but a guard refuses it"
		case len(best.Refused) > 0:
			text += ", but a guard is not decided"
		}
		if candidates > 1 {
			text += fmt.Sprintf(" (%d of %d better)", better, candidates)
		}
		return text
	}
	var words []string
	for _, r := range t.Rows {
		switch n := counts[r.Outcome]; {
		case r.IsTwin || n == 0:
			continue
		case candidates == 1 && r.Outcome == model.Worse:
			return r.Setting + " is worse: " + r.Gain
		case candidates == 1:
			return r.Setting + ": " + outcome(r.Outcome)
		default:
			words = append(words, fmt.Sprintf("%d %s", n, outcome(r.Outcome)))
		}
		delete(counts, r.Outcome)
	}
	if candidates == 0 {
		return ""
	}
	return "nothing is better: " + strings.Join(words, ", ")
}

// outcome names an outcome in a count.
func outcome(o model.Outcome) string {
	switch o {
	case model.Equivalent:
		return "without a difference that matters"
	case model.Undecided:
		return "not decided"
	case model.Better, model.Worse:
	}
	return string(o)
}

// limitLine names the limits of the directions of a test, without the evidence.
func (b *builder) limitLine() string {
	var parts []string
	shown := map[model.Direction]bool{}
	for _, f := range b.s.Findings {
		if !shown[f.Direction] {
			parts = append(parts, b.names.Way(f.Direction)+" "+diagnose.Brief(f, b.names.Of))
		}
		shown[f.Direction] = true
	}
	return strings.Join(parts, "; ")
}
