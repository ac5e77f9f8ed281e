package metric

import (
	"math"
	"slices"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

func TestChangesReadRight(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		metric            model.Metric
		d, low, high      float64
		change, rangeText string
	}{
		{model.Goodput, math.Log(30.69), math.Log(29.13), math.Log(32.33), "30.7 times", "29.1 to 32.3 times"},
		{model.Goodput, math.Log(0.3), math.Log(0.2), math.Log(0.4), "0.30 times", "0.20 to 0.40 times"},
		{model.LatencyP50, math.Log(1 / 0.52), 0.5, 0.8, "48 % lower", "-55 % to -39 %"},
		{model.LatencyP99, -math.Log(2.97), -1.3, -0.9, "3.0 times", "2.5 to 3.7 times"},
		{model.LatencyP99, math.Log(4), math.Log(3), inf, "0.25 times", "below 0.333 times"},
		{model.LossRatio, -0.0052, -0.0061, -0.0043, "0.52 points higher", "0.43 to 0.61 points"},
		{model.LossRatio, 0, 0, 0, "0 points", "0 points"},
		{model.LossRatio, 1e-9, -2e-9, 3e-9, "0 points", "0 points"},
		{model.AddedP99, 0.0123, 0.0081, 0.0164, "12.3 ms lower", "-16.4 to -8.1 ms"},
		{model.Retransmits, -12.4, -20.1, -5.2, "12 higher", "5 to 20"},
		{model.CPUPerGbitFar, -0.2, -inf, inf, "22 % higher", "not bounded yet"},
		{model.Goodput, math.NaN(), -inf, inf, "unknown", "not bounded yet"},
	} {
		i := Describe(c.metric)
		got, iv := i.ChangeText(c.d, c.low, c.high), i.RangeText(c.d, c.low, c.high)
		must.True(t, got == c.change && iv == c.rangeText, "%s by %g: %q, %q; want %q, %q", c.metric, c.d, got, iv, c.change, c.rangeText)
	}
}

func TestHarmInWords(t *testing.T) {
	for m, want := range map[model.Metric]string{
		model.LatencyP99: "50 % higher", model.LossRatio: "0.5 points higher", model.Goodput: "10 % lower", model.CPUPerGbitNear: "50 % higher",
	} {
		var got string
		for _, engine := range []string{"loaded", "udpflow", "tcpbulk"} {
			objective := model.Goodput
			if m == objective {
				objective = model.LatencyP50
			}
			for _, g := range Guards(model.Flow{Engine: engine}, objective) {
				if g.Metric == m {
					got = Describe(m).HarmText(g.Margin)
				}
			}
		}
		must.Equal(t, got, want, "%s: no default guard against %q, but", m, want)
	}
}

func TestNames(t *testing.T) {
	for _, name := range Names() {
		i, ok := ByName(name)
		must.True(t, ok && i.Name != "", "%s is not known by its own name", name)
		again, ok := ByName(string(i.ID))
		must.True(t, ok && again.ID == i.ID, "%s is not known as %s", name, i.ID)
		must.True(t, i.CanBe0 == (i.Margin > 0) && i.CanBe0 == (i.Unit != ""), "%s: a metric that can be 0 has a unit and a margin of its own, and no other", name)
	}
	for _, m := range Measured(model.Flow{Engine: "loaded"}) {
		_, ok := Of(m)
		must.True(t, ok, "no verdict can be given on %s, which loaded measures", m)
	}
	must.True(t, !slices.Contains(Names(), CPU), "%s is two metrics", CPU)
}
