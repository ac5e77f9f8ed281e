package metric

import (
	"math"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Tolerable is how many margins of harm an undecided guard may leave possible without blocking
// a setting (statistics.md section 6.5, proposed).
const Tolerable = 3

// Harm returns times margins of g as a positive number on the scale of differences: a log
// ratio, or the metric's own unit if it can be 0. It is infinite if no change can be so large,
// such as a fall by more than 100 %.
func Harm(g model.Guard, times float64) float64 {
	switch info := Describe(g.Metric); {
	case info.CanBe0:
		return times * g.Margin
	case info.LowIs:
		return stats.LogMargin(units.Percent(times * g.Margin))
	case times*g.Margin >= 100:
		return math.Inf(1)
	default:
		return -stats.LogMargin(units.Percent(-times * g.Margin))
	}
}

// Negligible is the latency, in seconds, below which a default guard sees no harm (p): a
// busy processor alone makes such differences, and no person and hardly a program feels them.
const Negligible = 1e-3

// IsNegligible reports whether g allows the value v however much it has risen: a latency below
// Negligible, unless the user asked for the guard.
func IsNegligible(g model.Guard, v float64) bool {
	return g.Default && v < Negligible && slices.Contains([]model.Metric{model.LatencyP50, model.LatencyP99, model.RTT}, g.Metric)
}

// FollowsLoad reports whether m rises with the load of the path by itself, so that settings are
// compared at equal load (statistics.md section 6.5; docs/experiments.md says why for
// retransmissions).
func FollowsLoad(m model.Metric) bool {
	return slices.Contains([]model.Metric{model.LatencyP50, model.LatencyP99, model.AddedP50, model.AddedP99, model.RTT, model.RetransmitRatio}, m)
}
