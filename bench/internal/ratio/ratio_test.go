package ratio

import (
	"math"
	"slices"
	"testing"

	"linerate/internal/must"
)

func TestPairedRatios(t *testing.T) {
	for name, c := range map[string]struct {
		a, b []float64
		want Spread
		text string
	}{
		"odd":        {[]float64{2, 6, 1}, []float64{1, 2, 1}, Spread{2, 1, 3, 3}, "2.00 [1.00-3.00]"},
		"even":       {[]float64{2, 4}, []float64{1, 1}, Spread{3, 2, 4, 2}, "3.00 [2.00-4.00]"},
		"one":        {[]float64{1.5}, []float64{2}, Spread{0.75, 0.75, 0.75, 1}, "0.75"},
		"not paired": {[]float64{1, 8}, []float64{2}, Spread{0.5, 0.5, 0.5, 1}, "0.50"},
		"by zero":    {[]float64{1, 8}, []float64{0, 4}, Spread{2, 2, 2, 1}, "2.00"},
		"nothing":    {nil, []float64{1}, Spread{}, "none"},
		"both zero":  {[]float64{0}, []float64{0}, Spread{}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Paired(c.a, c.b)
			must.True(t, got == c.want && got.String() == c.text, "got %+v %q, want %+v %q", got, got, c.want, c.text)
		})
	}
}

// A drift that affects both programs alike does not show in the ratio.
func TestDriftCancels(t *testing.T) {
	var a, b []float64
	for round := range 9 {
		drift := 1 + 0.5*float64(round)
		a, b = append(a, 1.1*drift), append(b, drift)
	}
	got := Paired(a, b)
	must.True(t, math.Abs(got.Low-1.1) <= 1e-9 && math.Abs(got.High-1.1) <= 1e-9, "got %v, want 1.1 everywhere", got)
}

func TestOfLeavesItsInputAlone(t *testing.T) {
	v := []float64{3, 1, 2}
	Of(v)
	must.True(t, slices.Equal(v, []float64{3, 1, 2}), "values are now %v", v)
}

func TestOrderAlternates(t *testing.T) {
	must.Same(t, Order(3, 0), []int{0, 1, 2}, "round 0")
	must.Same(t, Order(3, 1), []int{2, 1, 0}, "round 1")
}
