package tune_test

import (
	"math"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/tune"
	"linerate/internal/must"
)

// TestReadingsAtEqualLoad holds that the latency of a setting that carries more is that of
// its run at the incumbent's rate, and unknown without one.
func TestReadingsAtEqualLoad(t *testing.T) {
	o := options()
	o.Guards = []model.Guard{{Metric: model.LatencyP99, Margin: 50}, {Metric: model.RetransmitRatio, Margin: 0.005}}
	run := func(setting string, state model.RunState, mbit, latency float64) model.Run {
		f := probes.Over(model.Flow{Engine: bulk.Name, Direction: model.To})
		return model.Run{Block: 3, Setting: setting, State: state, Flow: f, Values: []model.Value{
			{Direction: model.To, Metric: model.Goodput, Value: mbit * 1e6},
			{Direction: model.To, Metric: model.LatencyP99, Value: latency},
			{Direction: model.To, Metric: model.RetransmitRatio, Value: 0.001},
		}}
	}
	w := bufferWorld(1, 512<<10)
	m := tune.New(o)
	m.Looked(w.look(m.Next().Settings[0]))
	step := m.Next()
	must.Need(t, step.Kind == tune.KindRace && len(step.Settings) == 2, "%+v, want a race", step)
	m2 := step.Settings[1].Name
	runs := []model.Run{run(tune.Baseline, model.RunValid, 14, 0.010), run(m2, model.RunValid, 94, 0.090)}
	for name, c := range map[string]struct {
		runs []model.Run
		want float64 // harm of the latency, as a log ratio
	}{
		"measured":     {append(runs[:2:2], run(m2, model.RunEqualLoad, 14, 0.011)), math.Log(1.1)},
		"not measured": {runs, math.NaN()},
	} {
		b, ok := m.Readings(3, c.runs)
		must.Need(t, ok && len(b) == 2, "%s: %v, complete %v", name, b, ok)
		got := b[tune.Baseline].Harm[0] - b[m2].Harm[0]
		must.True(t, math.IsNaN(got) && math.IsNaN(c.want) || math.Abs(got-c.want) <= 1e-9, "%s: harm %v, want %v", name, got, c.want)
		gain := b[m2].Log - b[tune.Baseline].Log
		must.True(t, math.Abs(gain-math.Log(94.0/14)) <= 1e-9, "%s: gain %v is not that of the ordinary runs", name, gain)
		must.Equal(t, math.IsNaN(b[m2].Harm[1]), math.IsNaN(c.want), "%s: retransmissions are unknown", name)
	}
}
