package report

import (
	"slices"

	"linerate/internal/core/analysis"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Measured is the value of the objective for one setting in one direction.
type Measured struct {
	Direction  model.Direction `json:"direction"`
	Label      string          `json:"label"`   // "to nas, before"
	Setting    string          `json:"setting"` // its name in the plan
	Runs       int             `json:"runs"`
	Median     float64         `json:"median"` // over the runs
	Low        float64         `json:"low"`    // of its interval
	High       float64         `json:"high"`
	Confidence float64         `json:"confidence"` // of the interval, 0…1
	Text       string          `json:"text"`       // "94.03 Mbit/s (93.97 to 94.1 Mbit/s)"
	Outcome    model.Outcome   `json:"outcome"`    // against the baseline; "" for the baseline itself
	Name       string          `json:"-"`          // the label without the direction: "before"
	toward     string          // "to nas"
	value      string          // the median with its unit
	said       string          // the verdict as text
}

// compared returns the values of the baseline and of the setting that an experiment is about:
// the only other one, or the best one that may be kept.
func (b *builder) compared() []Measured {
	p := &b.s.Plan
	if b.s.Kind != model.KindRun || len(p.Factors) > 1 || len(p.Ends) > 0 || b.untrustworthy() != "" {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(p.Settings), func(s model.Setting) bool { return s.Name == p.Baseline || s.Name == p.Twin })
	setting := analysis.Best(*p, b.s.Verdicts)
	if setting == "" && len(others) == 1 {
		setting = others[0].Name
	}
	if setting == "" {
		return nil
	}
	const most = 16 // longer names leave no space for a bar in a terminal
	if max(len(p.Baseline), len(setting)) > most {
		return b.beforeAfter(setting, "before", "after")
	}
	return b.beforeAfter(setting, p.Baseline, setting)
}

// beforeAfter returns the values of the baseline and of a setting in the directions of s, under
// the names was and is.
func (b *builder) beforeAfter(setting, was, is string) (out []Measured) {
	for _, d := range []model.Direction{model.To, model.From} {
		before, after := b.valueOf(b.s.Plan.Baseline, d), b.valueOf(setting, d)
		if before.Runs > 0 && after.Runs > 0 {
			after.toward = b.names.Way(d)
			before.Name, after.Name = was, is
			before.Label, after.Label = after.toward+", "+was, after.toward+", "+is
			for _, v := range b.s.Verdicts {
				if b.s.Plan.DecidedBy(&v) && v.Setting == setting && v.Direction == d {
					after.Outcome, after.said = v.Outcome, metric.Said(v, b.s.Plan.Margin)
				}
			}
			out = append(out, before, after)
		}
	}
	return out
}

// valueOf returns the value of one setting over its counted runs.
func (b *builder) valueOf(setting string, d model.Direction) Measured {
	of := slices.DeleteFunc(b.runsOf(setting), func(r model.Run) bool { return r.Flow.Direction != d })
	m := b.s.Plan.Decides()
	v := runValues(of, d, m)
	i := stats.MedianInterval(v, b.s.Plan.Confidence)
	median := stats.Median(v)
	within := units.Range(metric.Amount(m, i.Low), metric.Amount(m, i.High))
	if len(v) == 1 {
		within = "1 run"
	}
	return Measured{
		Direction: d, Setting: setting, Runs: len(v), Median: median, Low: i.Low, High: i.High, Confidence: i.Confidence, value: metric.Amount(m, median),
		Text: metric.Amount(m, median) + " (" + within + ")",
	}
}
