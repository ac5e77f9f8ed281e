package analysis

import (
	"slices"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/units"
)

// Paced is a run that a block needs: of a candidate in one direction, held to the goodput
// of the block's baseline.
type Paced struct {
	Setting   string
	Direction model.Direction
	Rate      units.BitRate // of payload
}

// faster is how many times the baseline's goodput a candidate carries before their
// latencies are of different loads (proposed).
const faster = 1.05

// AtEqualLoad returns the runs at equal load that a block needs before its latency guards can
// be read: one for each candidate that carried more than the baseline and had a latency beyond
// a guard's margin. A flow that its window starves never fills the queue, so that every cure of
// it raises the latency; what matters is whether other traffic would feel more at today's load
// (statistics.md section 6.5).
//
// settled reports comparisons that need no more runs; nil means none.
func AtEqualLoad(guards []model.Guard, baseline string, runs []model.Run, settled func(setting string, d model.Direction, m model.Metric) bool) []Paced {
	var out []Paced
	if !slices.ContainsFunc(guards, func(g model.Guard) bool { return metric.FollowsLoad(g.Metric) }) {
		return nil
	}
	for _, base := range runs {
		d := base.Flow.Direction
		rate, ok := base.Value(d, model.Goodput)
		if base.Setting != baseline || base.State != model.RunValid || !ok || rate <= 0 || d == model.Both {
			continue
		}
		for _, r := range runs {
			got, ok := r.Value(d, model.Goodput)
			if r.Setting == baseline || r.State != model.RunValid || r.Flow.Direction != d || !ok || got < faster*rate {
				continue
			}
			harmed := slices.ContainsFunc(guards, func(g model.Guard) bool {
				v, _ := r.Value(d, g.Metric)
				return metric.FollowsLoad(g.Metric) && !metric.IsNegligible(g, v) && harm(g.Metric, base, r, d) > metric.Harm(g, 1) &&
					(settled == nil || !settled(r.Setting, d, g.Metric))
			})
			if !harmed || r.Flow.Engine != base.Flow.Engine {
				continue
			}
			if _, paced := bulk.Paced(r.Flow, units.BitRate(rate)); paced {
				out = append(out, Paced{Setting: r.Setting, Direction: d, Rate: units.BitRate(rate)})
			}
		}
	}
	return out
}

// harm returns how much worse m is in run r than in base, on the scale of metric.Harm; 0 if
// either run has no value.
func harm(m model.Metric, base, r model.Run, d model.Direction) float64 {
	x, ok := base.Value(d, m)
	y, found := r.Value(d, m)
	if !ok || !found {
		return 0
	}
	info := metric.Describe(m)
	if info.CanBe0 {
		return info.Change(x - y)
	}
	was, ok := stats.LogValue(x, info.Sense())
	is, found := stats.LogValue(y, info.Sense())
	if !ok || !found {
		return 0
	}
	return was - is
}
