package stats

import (
	"math"
	"slices"
	"testing"
	"time"

	"linerate/internal/must"

	"pgregory.net/rapid"
)

func seconds(values ...float64) []RunInterval {
	window := make([]RunInterval, len(values))
	for i, v := range values {
		window[i] = RunInterval{Start: time.Duration(i) * time.Second, Length: time.Second, Value: v}
	}
	return window
}

// "1 s at 0.2 Mbit/s in a 940 Mbit/s run is a stall" (statistics.md 10.1).
func TestStallsExample(t *testing.T) {
	r := Stalls(seconds(940, 941, 0.2, 939, 940, 942, 940, 941, 939, 940))
	must.True(t, slices.Equal(r.At, []int{2}) && r.Count == 1 && r.Longest == time.Second && r.Total == time.Second,
		"%+v, want one stall of 1 s at 2", r)
	near(t, "share", r.Share, 0.1, 1e-12)
	near(t, "median", r.Median, 940, 1e-9)
}

func TestStallsJoinNeighbours(t *testing.T) {
	window := seconds(0, 9, 9, 0, 0.5, 0.9, 9, 9, 9, 9, 0)
	window[10].Length = 250 * time.Millisecond
	window = slices.Insert(window, 4, RunInterval{Start: 4 * time.Second, Value: 9}) // no length
	r := Stalls(window)
	must.True(t, slices.Equal(r.At, []int{0, 3, 5, 11}) && r.Count == 3,
		"%+v, want 3 stalls at 0, 3 and 5, 11: exactly a tenth of the median is not a stall", r)
	must.True(t, r.Longest == 2*time.Second && r.Total == 3250*time.Millisecond, "longest %v of %v, want 2 s of 3.25 s", r.Longest, r.Total)
	near(t, "share", r.Share, 3.25/10.25, 1e-12)
}

func TestStallsWithoutAMedian(t *testing.T) {
	for name, window := range map[string][]RunInterval{"nothing": nil, "mostly nothing": seconds(0, 0, 0, 5, 5)} {
		r := Stalls(window)
		must.True(t, r.Count == 0 && len(r.Warnings) == 1, "%s: %+v, want a warning", name, r)
	}
}

func TestLawStallsScaleAndReverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 40).Draw(t, "x")
		factor := rapid.SampledFrom([]float64{1.0 / 1024, 0.5, 2, 1 << 20}).Draw(t, "factor")
		scaled := slices.Clone(x)
		for i := range scaled {
			scaled[i] *= factor
		}
		a, b := Stalls(seconds(x...)), Stalls(seconds(scaled...))
		slices.Reverse(x)
		c := Stalls(seconds(x...))
		must.Need(t, slices.Equal(a.At, b.At) && a.Count == c.Count && a.Longest == b.Longest && a.Longest == c.Longest,
			"%+v, scaled %+v, reversed %+v", a, b, c)
		must.Need(t, a.Total >= a.Longest && a.Count <= len(a.At) && a.Share <= 0.5, "%+v: half of the values are not below a tenth of the median", a)
	})
}

func TestSpikesExample(t *testing.T) {
	x := []float64{9.4, 9.5, 9.3, 9.6, 0.0002, 9.4, 9.5, 9.7, 9.4, 9.5}
	r := Spikes(x)
	near(t, "median", r.Median, 9.45, 1e-9)
	near(t, "scaled MAD", madScale*0.05, 0.07413, 1e-9)
	near(t, "scale", r.Scale, 0.189, 1e-9) // the floor
	near(t, "z5", r.Z[4], -49.999, 1e-3)
	must.True(t, slices.Equal(r.At, []int{4}), "spikes at %v, want 4", r.At)
	for i, z := range r.Z {
		must.True(t, i == 4 || math.Abs(z) <= 1.33, "z%d = %v, want within ±1.33", i+1, z)
	}
}

func TestSpikesUseTheSpreadAboveTheFloor(t *testing.T) {
	r := Spikes([]float64{8, 9, 10, 11, 12, 30})
	near(t, "scale", r.Scale, madScale*1.5, 1e-12)
	must.True(t, slices.Equal(r.At, []int{5}), "spikes at %v, want 5", r.At)
}

func TestSpikesWithoutAScale(t *testing.T) {
	for name, x := range map[string][]float64{"nothing": nil, "mostly 0": {0, 0, 0, 5}} {
		r := Spikes(x)
		must.True(t, r.Z == nil && r.At == nil && len(r.Warnings) == 1, "%s: %+v, want a warning", name, r)
	}
}

func TestLawSpikesScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(0.1, 100), 1, 40).Draw(t, "x")
		factor := rapid.Float64Range(1e-3, 1e9).Draw(t, "factor")
		scaled := slices.Clone(x)
		for i := range scaled {
			scaled[i] *= factor
		}
		a, b := Spikes(x), Spikes(scaled)
		for i := range a.Z {
			same(t, "z", a.Z[i], b.Z[i])
		}
		must.Need(t, len(a.At) <= len(x)/2, "%d of %d values are spikes", len(a.At), len(x))
	})
}
