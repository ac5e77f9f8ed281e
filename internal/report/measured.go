package report

import (
	"strings"
	"time"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Measured is the value of one setting in one direction, of the metric that decides.
type Measured struct {
	Direction  model.Direction `json:"direction"`
	Label      string          `json:"label"`   // "to nas, before"
	Setting    string          `json:"setting"` // as the plan names it
	Runs       int             `json:"runs"`
	Median     float64         `json:"median"` // of the runs
	Low        float64         `json:"low"`    // of its interval
	High       float64         `json:"high"`
	Confidence float64         `json:"confidence"` // of the interval, 0…1
	Text       string          `json:"text"`       // "94.03 Mbit/s (93.97 to 94.1 Mbit/s)"
	Outcome    model.Outcome   `json:"outcome"`    // against the baseline; "" of the baseline itself
	toward     string          // "to nas"
	value      string          // the median with its unit
	said       string          // the verdict for people
}

// beforeAfter returns the values of a baseline and of a setting in the directions of s.
func (b *builder) beforeAfter(setting string) (out []Measured) {
	for _, d := range []model.Direction{model.To, model.From} {
		before, after := b.valueOf(b.s.Plan.Baseline, d), b.valueOf(setting, d)
		if before.Runs > 0 && after.Runs > 0 {
			after.toward = b.names.Way(d)
			before.Label, after.Label = after.toward+", before", after.toward+", after"
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
	var of []model.Run
	for _, r := range b.counted {
		if r.Setting == setting && r.Flow.Direction == d {
			of = append(of, r)
		}
	}
	m := b.s.Plan.Decides()
	v := runValues(of, d, m)
	i := stats.MedianInterval(v, b.s.Plan.Confidence)
	median := stats.Median(v)
	return Measured{
		Direction: d, Setting: setting, Runs: len(v), Median: median, Low: i.Low, High: i.High, Confidence: i.Confidence, value: amount(m, median),
		Text: amount(m, median) + " (" + units.Range(amount(m, i.Low), amount(m, i.High)) + ")",
	}
}

// amount writes a value of a metric with its unit.
func amount(m model.Metric, v float64) string {
	switch unit := metric.Base(m); unit {
	case "bit/s":
		return units.BitRate(v).String()
	case "s":
		return units.FormatDuration(time.Duration(v * float64(time.Second)))
	case "s/Gbit":
		return units.FormatDuration(time.Duration(v*float64(time.Second))) + " of CPU for each Gbit"
	case "1":
		return units.Percent(100 * v).String()
	case "B":
		return units.Bytes(v).String()
	case "1/s":
		return units.Round(v, 0) + " " + metric.Describe(m).Short + "/s"
	default:
		return strings.TrimSuffix(units.Round(v, 0)+" "+unit, " ")
	}
}
