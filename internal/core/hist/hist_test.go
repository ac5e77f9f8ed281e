package hist

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/fact"
	"linerate/internal/must"
)

// value draws durations evenly over all orders of magnitude, including the ends and values
// outside the range.
func value() *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]time.Duration{math.MinInt64, -1, 0, Lowest, 127, 128, 129, 255, 256,
				Highest - 1, Highest, Highest + 1, math.MaxInt64}).Draw(t, "edge")
		case 1:
			return rapid.SampledFrom([]time.Duration{-time.Second, 0, 2 * time.Hour}).Draw(t, "outside")
		default:
			return inRange().Draw(t, "inside")
		}
	})
}

func inRange() *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		top := int64(1) << rapid.IntRange(0, 42).Draw(t, "size")
		return time.Duration(rapid.Int64Range(1, min(top, int64(Highest))).Draw(t, "value"))
	})
}

func of(values ...time.Duration) *Histogram {
	var r Recorder
	for _, v := range values {
		r.Record(v)
	}
	return r.Histogram()
}

func known(t rapid.TB, what string, f fact.Of[time.Duration]) time.Duration {
	t.Helper()
	v, ok := f.Get()
	must.Need(t, ok, "%s is unknown: %s", what, f.Reason())
	return v
}

func TestBucketsCoverTheRangeWithoutGapOrOverlap(t *testing.T) {
	next := int64(1)
	for i := 1; i < buckets; i++ {
		low, high := edges(i)
		must.Need(t, low == next && high >= low, "bucket %d is %d…%d, want it to start at %d", i, low, high, next)
		must.Need(t, bucketOf(uint64(low)) == i && bucketOf(uint64(high)) == i, "ends of bucket %d lie in %d and %d", i, bucketOf(uint64(low)), bucketOf(uint64(high)))
		half := float64(high-low) / 2
		must.Need(t, half < MaxError*float64(low), "bucket %d: error %v of %d", i, half, low)
		next = high + 1
	}
	must.Equal(t, next, int64(Highest)+1, "the last bucket ends before")
}

func TestQuantileIsWithinTheErrorOfTheExactOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(inRange(), 1, 300).Draw(t, "values")
		h := of(values...)
		slices.Sort(values)
		n := len(values)
		for _, thousandths := range []int{0, 1, 500, 900, 950, 990, 999, 1000} {
			exact := values[max(1, (thousandths*n+999)/1000)-1]
			got := known(t, "quantile", h.Quantile(float64(thousandths)/1000))
			must.Need(t, math.Abs(float64(got-exact)) <= MaxError*float64(exact), "quantile %d/1000 of %d values = %v, exact %v", thousandths, n, got, exact)
		}
	})
}

func TestExactNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(value(), 1, 50).Draw(t, "values")
		h := of(values...)
		if got := known(t, "min", h.Min()); got != slices.Min(values) {
			t.Fatalf("min %v, want %v", got, slices.Min(values))
		}
		got := known(t, "max", h.Max())
		must.Need(t, got == slices.Max(values), "max %v, want %v", got, slices.Max(values))
		var inside, below, above uint64
		for _, v := range values {
			switch {
			case v < Lowest:
				below++
			case v > Highest:
				above++
			default:
				inside++
			}
		}
		must.Need(t, h.Count() == uint64(len(values)) && h.Below() == below && h.Above() == above, "%d values, %d below, %d above; want %d, %d, %d", h.Count(), h.Below(), h.Above(), len(values), below, above)
		for _, n := range h.occupied() {
			inside -= n
		}
		must.Need(t, inside == 0, "the buckets lack %d values", inside)
	})
}

func TestMean(t *testing.T) {
	beyond := of(time.Millisecond, 2*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond).Beyond(5 * time.Millisecond)
	must.True(t, math.Abs(beyond.Seconds()/0.150-1) < MaxError, "beyond 5 ms: %v", beyond)
	for _, c := range []struct {
		name   string
		values []time.Duration
		want   time.Duration
	}{
		{"one", []time.Duration{7}, 7},
		{"rounded up", []time.Duration{1, 2}, 2},
		{"rounded down", []time.Duration{1, 1, 2}, 1},
		{"negative", []time.Duration{-1, -2}, -2},
		{"signs cancel", []time.Duration{-5, 5}, 0},
		{"sum beyond 64 bits", []time.Duration{math.MaxInt64, math.MaxInt64, math.MaxInt64 - 3}, math.MaxInt64 - 1},
		{"sum below −2^63", []time.Duration{math.MinInt64, math.MinInt64}, math.MinInt64},
		{"outside counts", []time.Duration{0, 4 * time.Hour}, 2 * time.Hour},
	} {
		must.Equal(t, known(t, c.name, of(c.values...).Mean()), c.want, "%s", c.name)
	}
}

func TestMergeEqualsRecordingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(value(), 0, 40).Draw(t, "a")
		b := rapid.SliceOfN(value(), 0, 40).Draw(t, "b")
		all := of(append(slices.Clone(a), b...)...)
		ab, ba, hb := of(a...), of(b...), of(b...)
		must.Do(t, errors.Join(ab.Merge(hb), ba.Merge(of(a...))))
		must.Need(t, *ab == *all && *ba == *all, "merged %v and %v differ from recording both", a, b)
		must.Need(t, *hb == *of(b...), "merge changed its argument")
	})
}

func TestMergeWithItselfDoubles(t *testing.T) {
	h := of(3, time.Second, 2*time.Hour)
	must.Do(t, h.Merge(h))
	must.Equal(t, *h, *of(3, 3, time.Second, time.Second, 2*time.Hour, 2*time.Hour), "a histogram merged with itself is not every value twice")
}

func TestMergeRefusesTooMany(t *testing.T) {
	h, o := of(5), of(6)
	h.total = MaxCount
	before := *h
	err := h.Merge(o)
	must.True(t, errors.Is(err, ErrTooMany) && *h == before, "error %v, changed %v", err, *h != before)
}

func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(value(), 0, 40).Draw(t, "values")
		must.Need(t, *of(values...) == *of(rapid.Permutation(values).Draw(t, "shuffled")...), "order changed the histogram")
	})
}

func TestQuantileOutsideTheRangeIsUnknown(t *testing.T) {
	h := of(-1, 0, 0, time.Millisecond, time.Second, 2*time.Hour, 3*time.Hour)
	for _, c := range []struct {
		q      float64
		reason string
	}{{0.3, "below 1ns"}, {0.8, "above 1h0m0s"}, {math.NaN(), "quantile NaN is not between 0 and 1"},
		{-0.1, "quantile -0.1 is not between 0 and 1"}, {1.01, "quantile 1.01 is not between 0 and 1"}} {
		got := h.Quantile(c.q)
		must.True(t, !got.IsKnown() && got.Reason() == c.reason, "quantile %v: %v %q, want unknown %q", c.q, got.Or(0), got.Reason(), c.reason)
	}
	for q, want := range map[float64]time.Duration{0: -1, 1: 3 * time.Hour} {
		must.Equal(t, known(t, "end", h.Quantile(q)), want, "quantile %v", q)
	}
	middle := known(t, "median", h.Quantile(0.5))
	must.True(t, !(math.Abs(float64(middle-time.Millisecond)) > MaxError*float64(time.Millisecond)), "median %v, want 1 ms: values outside keep their rank", middle)
}

func TestEmptyIsUnknownNotZero(t *testing.T) {
	h := new(Histogram)
	for what, f := range map[string]fact.Of[time.Duration]{
		"min": h.Min(), "max": h.Max(), "mean": h.Mean(), "median": h.Quantile(0.5), "p0": h.Quantile(0),
	} {
		must.True(t, !f.IsKnown() && f.Reason() == "no values recorded", "%s of nothing: known %v, reason %q", what, f.IsKnown(), f.Reason())
	}
}

// 0.07 × 100 is above 7 in binary: the seventh value, not the eighth.
func TestQuantileRankIsNotRoundedUpByBinary(t *testing.T) {
	var r Recorder
	for v := range time.Duration(100) {
		r.Record(v + 1)
	}
	h := r.Histogram()
	for q, want := range map[float64]time.Duration{0.07: 7, 0.55: 55, 0.56: 56, 0.999: 100, 0.505: 51} {
		must.Equal(t, known(t, "quantile", h.Quantile(q)), want, "quantile %v", q)
	}
}

func TestPercentileOfFew(t *testing.T) {
	for _, c := range []struct {
		q             float64
		answers, lost uint64
		lacks         string
	}{
		{0.99, 99, 0, "it takes 100 answers or more, and there are 99"},
		{0.99, 100, 0, ""},
		{0.99, 0, 0, "it takes 100 answers or more, and there are 0"},
		{0.999, 999, 0, "it takes 1000 answers or more, and there are 999"},
		{0.999, 1000, 0, ""},
		{0.9, 10, 0, ""},
		{0.5, 1, 0, "it takes 2 answers or more, and there are 1"},
		{0.5, 2, 2, ""},
		{0.99, 198, 2, ""},
		{0.99, 197, 3, "of 200 requests 3 were never answered, and it is one of them"},
		{0.5, 2, 3, "of 5 requests 3 were never answered, and it is one of them"},
	} {
		var r Recorder
		for range c.answers {
			r.Record(time.Millisecond)
		}
		got := r.Histogram().Percentile(c.q, c.lost)
		must.True(t, got.IsKnown() == (c.lacks == "") && got.Reason() == c.lacks, "%+v: %v, %q", c, got.Or(0), got.Reason())
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	h := new(Recorder)
	v := time.Duration(1)
	n := testing.AllocsPerRun(1000, func() {
		v = v*3%(2*Highest) - 1
		h.Record(v)
	})
	must.True(t, n == 0, "Record allocates %v times", n)
}

// TestAddEqualsRecording: adding a value many times equals recording it as often.
func TestAddEqualsRecording(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var added Recorder
		var all []time.Duration
		for _, v := range rapid.SliceOfN(value(), 0, 10).Draw(t, "values") {
			n := rapid.IntRange(1, 5).Draw(t, "times")
			added.Add(v, uint64(n))
			all = append(all, slices.Repeat([]time.Duration{v}, n)...)
		}
		must.Need(t, *added.Histogram() == *of(all...), "%v differ", all)
	})
}

func BenchmarkRecord(b *testing.B) {
	h, v := new(Recorder), time.Duration(1)
	b.ReportAllocs()
	for b.Loop() {
		v = v*5%Highest + 1
		h.Record(v)
	}
}

func BenchmarkQuantile(b *testing.B) {
	r, v := new(Recorder), time.Duration(1)
	for range 10_000 {
		v = v*5%Highest + 1
		r.Record(v)
	}
	for h := r.Histogram(); b.Loop(); {
		h.Quantile(0.999)
	}
}
