package stats

import (
	"math"
	"testing"
	"time"

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
