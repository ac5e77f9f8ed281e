package search

import "linerate/internal/core/model"

// reached is the share of the rate asked for that a sender must make.
const reached = 0.98

// Trials returns what the valid runs of a session say, in their order.
func Trials(runs []model.Run, d model.Direction) []Trial {
	var out []Trial
	for _, r := range runs {
		loss, ok := r.Value(d, model.LossRatio)
		if !ok || r.State != model.RunValid || r.Flow.UDP == nil {
			continue
		}
		t := Trial{Rate: r.Flow.UDP.Rate, Loss: loss}
		for _, end := range r.Ends {
			for _, f := range end.Flows {
				if f.Direction == d && f.Role == model.Sender && f.Window > 0 {
					t.Short = float64(f.Bytes)*8/f.Window.Seconds() < reached*float64(t.Rate)
				}
			}
		}
		out = append(out, t)
	}
	return out
}
