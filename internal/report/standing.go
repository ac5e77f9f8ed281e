package report

import (
	"fmt"
	"math"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
)

// Standing compares a setting with the baseline while an experiment runs.
type Standing struct {
	Setting   string
	Direction model.Direction
	Outcome   model.Outcome
	Text      string // "12 % higher (+8.1 % to +16 %)", and the verdict once decided
}

// Standings returns the present verdicts on the objective for the settings of p.
func Standings(p model.Plan, verdicts []model.Verdict) []Standing {
	var all []Standing
	for _, v := range verdicts {
		if !p.DecidedBy(&v) {
			continue
		}
		s := Standing{Setting: v.Setting, Direction: v.Direction, Outcome: v.Outcome, Text: "no block yet"}
		if v.Blocks > 0 {
			i := metric.Describe(v.Metric)
			low, high := float64(v.Interval.Low), float64(v.Interval.High)
			s.Text = i.ChangeText(v.Estimate, low, high)
			if math.IsInf(low, 0) && math.IsInf(high, 0) {
				s.Text += " (no interval yet)"
			} else {
				s.Text += fmt.Sprintf(" (%s)", i.RangeText(v.Estimate, low, high))
			}
		}
		if v.Outcome != model.Undecided {
			s.Text = metric.Said(v, p.Margin)
		}
		all = append(all, s)
	}
	return all
}
