package stats

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/lists"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func TestDescribe(t *testing.T) {
	must.Equal(t, Describe([]float64{4, 1, 2, 9}), (Summary{N: 4, Mean: 4, Median: 3, Min: 1, Max: 9}), "Describe")
	empty := Describe(nil)
	must.True(t, empty.N == 0 && math.IsNaN(empty.Mean), "Describe(nil) = %+v, want no values", empty)
	must.Equal(t, Median([]float64{3, 1, 2}), 2, "median of three is not the middle one")
}

func TestMSER(t *testing.T) {
	d, criterion := MSER([]float64{1.2, 4.8, 8.1, 9.2, 9.6, 9.4, 9.5, 9.3, 9.6, 9.5, 9.4, 9.5})
	must.Equal(t, d, 5, "d")
	nearAll(t, "criterion", criterion,
		[]float64{0.518119, 0.167438, 0.017690, 0.001756, 0.001172, 0.001166, 0.001481}, 1e-6)
	d, c := MSER(nil)
	must.True(t, d == 0 && c == nil, "MSER(nil) = %d, %v", d, c)
	d, _ = MSER([]float64{7})
	must.True(t, d == 0, "MSER of one value = %d", d)
}

func TestDefaultOmit(t *testing.T) {
	must.Equal(t, DefaultOmit(time.Millisecond), 3*time.Second, "short path")
	must.Equal(t, DefaultOmit(600*time.Millisecond), 12*time.Second, "satellite")
}

func TestDifferencesV1(t *testing.T) {
	d := v1(t)
	nearAll(t, "D", d, []float64{0.04213011, 0.05034548, 0.01496598, 0.07201269,
		0.02324250, 0.06143823, 0.02190216, 0.06673080}, 1e-8)
	near(t, "mean", Mean(d), 0.04409599, 1e-8)
	near(t, "s", StdDev(d), 0.02207566, 1e-8)
}

func TestDifferenceSenses(t *testing.T) {
	up, _ := difference(125, 100, HigherIsBetter)
	down, _ := difference(100, 125, LowerIsBetter)
	near(t, "lower is better", down, up, 1e-15)
	near(t, "change of goodput", float64(Change(up, HigherIsBetter)), 25, 1e-9)
	near(t, "change of latency", float64(Change(down, LowerIsBetter)), -20, 1e-9)
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, ok := difference(bad, 1, HigherIsBetter)
		must.True(t, !ok, "a ratio of %v was accepted", bad)
		_, ok = difference(1, bad, LowerIsBetter)
		must.True(t, !ok, "a ratio to %v was accepted", bad)
	}
	near(t, "margin", LogMargin(units.Percent(2)), 0.01980263, 1e-8)
}

func TestRateDifferencesScaleToTheBets(t *testing.T) {
	near(t, "twice the margin", RateScale(0.001)*0.002, 2*UnitMargin, 1e-15)
}

func TestMSEROfAConstantSeries(t *testing.T) {
	for _, n := range []int{1, 2, 7, 30} {
		x := make([]float64, n)
		for i := range x {
			x[i] = 941.3
		}
		d, _ := MSER(x)
		must.True(t, d == 0, "%d equal values: %d are cut", n, d)
	}
	d, _ := MSER([]float64{1, 0.1, 0.1, 0.1, 0.1, 0.1})
	must.True(t, d == 1, "a warm-up of one value: %d are cut", d)
}

// The confidence comes from the sign test: 1-2/2^6 for 6 values, 1-2*(1+9)/2^9 for the second
// of 9 from either end (Conover 1999, section 3.2).
func TestMedianInterval(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want Interval
	}{
		{nil, Unbounded()},
		{[]float64{7}, Interval{Low: 7, High: 7}},
		{[]float64{3, 1, 2}, Interval{Low: 1, High: 3, Confidence: 0.75}},
		{[]float64{6, 5, 4, 3, 2, 1}, Interval{Low: 1, High: 6, Confidence: 1 - 2.0/64}},
		{[]float64{8, 7, 6, 5, 4, 3, 2, 1, 9}, Interval{Low: 2, High: 8, Confidence: 1 - 2.0*10/512}},
		{[]float64{1, math.NaN()}, Unbounded()},
	} {
		must.Equal(t, MedianInterval(c.x, 0.95), c.want, "%v", c.x)
	}
}

// TestShareBounds checks binom.test of R 4.3 for 10 of 100 at 95 % on both sides, and the rule
// of three.
func TestShareBounds(t *testing.T) {
	for _, c := range []struct {
		k, n                  int64
		confidence, low, high float64
	}{{10, 100, 0.975, 0.04900469, 0.17622260}, {0, 100, 0.95, 0, 1 - math.Pow(0.05, 0.01)}, {5, 5, 0.95, math.Pow(0.05, 0.2), 1}} {
		low, high := ShareBounds(c.k, c.n, c.confidence)
		must.True(t, math.Abs(low-c.low) < 1e-7 && math.Abs(high-c.high) < 1e-7, "%d of %d: %v to %v", c.k, c.n, low, high)
	}
}

// The example of statistics.md section 9: MB/s at 32K 64K 96K 128K.
func dropsExample() [][]float64 {
	rates := [][]float64{{610, 905, 640, 655}, {598, 890, 655, 640}, {620, 915, 600, 648},
		{605, 899, 650, 662}, {615, 902, 630, 651}}
	for _, row := range rates {
		for i := range row {
			row[i] = math.Log(row[i])
		}
	}
	return rates
}

func TestDropsExample(t *testing.T) {
	near(t, "quantile", tQuantile(4, 1-0.05/3), 3.186316, 1e-6)
	r := Drops(dropsExample(), DropLeast, DefaultConfidence)
	nearAll(t, "least", r.Least[1:], []float64{-0.400598, 0.288702, 0.306106}, 1e-6)
	nearAll(t, "fall", r.Fall[2:], []float64{0.351651, 0.326042}, 1e-6)
	must.True(t, slices.Equal(r.Reference[1:], []int{0, 1, 1}) && r.Sweeps == 5 && len(r.Warnings) == 0,
		"references %v of %d sweeps, warnings %q", r.Reference, r.Sweeps, r.Warnings)
	must.Need(t, len(r.Features) == 1, "features %+v, want one", r.Features)
	f := r.Features[0]
	must.True(t, f.Kind == Cliff && f.Reference == 1 && f.From == 2 && f.To == 3, "%+v, want a cliff from 2 to 3 against 1", f)
	near(t, "change", float64(Change(-f.Fall, HigherIsBetter)), -30, 0.5)
	near(t, "at least", float64(Change(-f.Least, HigherIsBetter)), -25, 0.5)
}

// sweeps returns n sweeps of a curve of rates with noise of ±0.4 %, different
// in each cell.
func sweeps(n int, rates ...float64) [][]float64 {
	logs := make([][]float64, n)
	for r := range logs {
		logs[r] = make([]float64, len(rates))
		for j, v := range rates {
			logs[r][j] = math.Log(v) + 0.002*float64((r*7+j*3)%5-2)
		}
	}
	return logs
}

func TestDropsFeatures(t *testing.T) {
	type feature struct {
		kind           FeatureKind
		ref, from, end int
	}
	for _, c := range []struct {
		name  string
		rates []float64
		want  []feature
	}{
		{"rising", []float64{100, 200, 300, 400}, nil},
		{"flat", []float64{400, 400, 400, 400}, nil},
		{"less than the share", []float64{400, 375, 375}, nil},
		{"notch", []float64{100, 200, 120, 210, 400}, []feature{{Notch, 1, 2, 2}}},
		{"wide notch", []float64{100, 200, 120, 130, 400}, []feature{{Notch, 1, 2, 3}}},
		{"cliff at the last size", []float64{100, 200, 120}, []feature{{Cliff, 1, 2, 2}}},
		{"cliff at once", []float64{200, 100, 100}, []feature{{Cliff, 0, 1, 2}}},
		{"notch, then cliff", []float64{200, 100, 300, 150, 160}, []feature{{Notch, 0, 1, 1}, {Cliff, 2, 3, 4}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := lists.Each(Drops(sweeps(5, c.rates...), DropLeast, DefaultConfidence).Features, func(f Feature) feature { return feature{f.Kind, f.Reference, f.From, f.To} })
			must.True(t, slices.Equal(got, c.want), "features %v, want %v", got, c.want)
		})
	}
}

func TestDropsThin(t *testing.T) {
	four := Drops(sweeps(4, 200, 100), DropLeast, DefaultConfidence)
	must.True(t, four.Features == nil && len(four.Warnings) == 1 && !(four.Least[1] < 0.6), "four sweeps: %+v, want numbers, a warning, no feature", four)
	for name, logs := range map[string][][]float64{"nothing": nil, "one size": sweeps(5, 100)} {
		r := Drops(logs, DropLeast, DefaultConfidence)
		must.True(t, r.Features == nil && len(r.Warnings) == 1, "%s: %+v, want a warning", name, r)
	}
	odd := sweeps(7, 200, 100)
	odd[2], odd[3][1] = odd[2][:1], math.Inf(-1)
	r := Drops(odd, DropLeast, DefaultConfidence)
	must.True(t, r.Sweeps == 5 && len(r.Features) == 1 && len(r.Warnings) == 1, "two incomplete sweeps: %+v", r)
}

// drawSweeps draws multiples of 1/1024: shifting them by such a multiple is exact, so that
// medians stay tied or apart.
func drawSweeps(t *rapid.T) [][]float64 {
	sizes := rapid.IntRange(2, 8).Draw(t, "sizes")
	cell := rapid.Map(rapid.IntRange(-1024, 1024), func(v int) float64 { return float64(v) / 1024 })
	return rapid.SliceOfN(rapid.SliceOfN(cell, sizes, sizes), 5, 8).Draw(t, "logs")
}

// A constant factor on all rates and the order of the sweeps change nothing.
func TestLawDropsOfScaledAndShuffledSweeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logs := drawSweeps(t)
		factor := float64(rapid.IntRange(-5120, 5120).Draw(t, "log factor")) / 1024
		moved := make([][]float64, len(logs))
		for i, row := range rapid.Permutation(logs).Draw(t, "shuffled") {
			for _, v := range row {
				moved[i] = append(moved[i], v+factor)
			}
		}
		a, b := Drops(logs, DropLeast, DefaultConfidence), Drops(moved, DropLeast, DefaultConfidence)
		must.Need(t, len(a.Features) == len(b.Features), "features %v and %v", a.Features, b.Features)
		for j := 1; j < len(a.Least); j++ {
			same(t, "fall", a.Fall[j], b.Fall[j])
			same(t, "least", a.Least[j], b.Least[j])
		}
	})
}

func TestLawFeaturesAreApartAndReal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Drops(drawSweeps(t), DropLeast, DefaultConfidence)
		for i, f := range r.Features {
			last := i == len(r.Features)-1
			must.Need(t, f.Reference < f.From && f.From <= f.To && f.Least <= f.Fall && f.Least > -math.Log1p(-DropLeast), "feature %+v", f)
			must.Need(t, (f.Kind == Cliff) == (f.To == len(r.Least)-1) && (last || f.To+1 < r.Features[i+1].From), "features %+v", r.Features)
		}
	})
}

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
	must.True(t, slices.Equal(r.At, []int{2}) && r.Count == 1 && r.Longest == time.Second && r.Total == time.Second, "%+v, want one stall of 1 s at 2", r)
	near(t, "share", r.Share, 0.1, 1e-12)
	near(t, "median", r.Median, 940, 1e-9)
}

func TestStallsJoinNeighbours(t *testing.T) {
	window := seconds(0, 9, 9, 0, 0.5, 0.9, 9, 9, 9, 9, 0)
	window[10].Length = 250 * time.Millisecond
	window = slices.Insert(window, 4, RunInterval{Start: 4 * time.Second, Value: 9}) // no length
	r := Stalls(window)
	must.True(t, slices.Equal(r.At, []int{0, 3, 5, 11}) && r.Count == 3, "%+v, want 3 stalls at 0, 3 and 5, 11: exactly a tenth of the median is not a stall", r)
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
		must.Need(t, slices.Equal(a.At, b.At) && a.Count == c.Count && a.Longest == b.Longest && a.Longest == c.Longest, "%+v, scaled %+v, reversed %+v", a, b, c)
		must.Need(t, a.Total >= a.Longest && a.Count <= len(a.At) && a.Share <= 0.5, "%+v: half of the values are not below a tenth of the median", a)
	})
}

func TestSpikesExample(t *testing.T) {
	r := Spikes([]float64{9.4, 9.5, 9.3, 9.6, 0.0002, 9.4, 9.5, 9.7, 9.4, 9.5})
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
