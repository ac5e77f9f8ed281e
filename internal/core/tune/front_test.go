package tune_test

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/tune"
	"linerate/internal/must"
)

// The front holds the settings that nothing beats in both rate and latency, whatever their
// order; a run of the other direction, or one that does not count, is no part of it.
func TestFront(t *testing.T) {
	run := func(name string, d model.Direction, rate, latency float64, s model.RunState) model.Run {
		return model.Run{Setting: name, State: s, Flow: model.Flow{Direction: d}, Values: []model.Value{
			{Metric: model.Goodput, Direction: d, Value: rate}, {Metric: model.LatencyP50, Direction: d, Value: latency},
		}}
	}
	runs := []model.Run{
		run("4MiB", model.To, 94e6, 0.095, model.RunValid), run("current", model.To, 14e6, 0.010, model.RunValid),
		run("256KiB", model.To, 93e6, 0.012, model.RunValid), run("worse", model.To, 60e6, 0.030, model.RunValid),
		run("from", model.From, 99e6, 0.001, model.RunValid), run("broken", model.To, 99e6, 0.001, model.RunInvalid),
	}
	var got []string
	for _, p := range tune.Front(runs, model.To) {
		got = append(got, p.Setting)
	}
	must.Same(t, got, []string{"current", "256KiB", "4MiB"})
}
