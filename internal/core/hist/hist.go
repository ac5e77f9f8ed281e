// Package hist holds the distribution of many latencies: a Recorder in fixed memory during the
// measurement, and a compact Histogram afterwards.
//
// Quantiles of parts must never be averaged: each part of a run, and each end,
// fills a histogram of its own, the histograms are merged, and the quantile is
// read from the sum (statistics.md section 1, rule 3).
//
// # Layout
//
// Buckets are log-linear, as in HdrHistogram (Tene, 2012): 64 equally wide
// buckets for each factor of two. Values of 1…127 ns have a bucket each. A value
// v ≥ 128 ns with 2^e ≤ v < 2^(e+1) falls into the bucket of width 2^(e−6) that
// holds it. With shift = max(0, e − 6) the number of the bucket is
//
//	shift × 64 + ⌊v / 2^shift⌋
//
// which counts on without a gap from one power of two to the next: 2,345 buckets,
// about 19 KB, reach 1 h.
//
// # Error
//
// A quantile is the middle of its bucket, at most half a width from the value
// recorded: (2^shift − 1) / 2 ns of at least 64 × 2^shift ns, so less than
// MaxError = 1/128 of it. Values below 128 ns are exact. Count, mean, least and
// greatest value are exact everywhere.
//
// # Saturation
//
// Values below 1 ns (a coarse clock, or one that stepped back) or above 1 h are counted apart.
// They keep their rank, their part of the mean, and their place as least or greatest value.
// Only their shape is lost: a quantile that falls among them is unknown, with the reason.
package hist

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"time"

	"linerate/internal/core/fact"
)

// Range and precision of a histogram.
const (
	Lowest   = time.Nanosecond // least value that has a bucket
	Highest  = time.Hour       // greatest value that has a bucket
	MaxError = 1.0 / 128       // bound of the relative error of a quantile

	// MaxCount is the most values that Merge and the decoders accept. It is the
	// largest count that every JSON reader can hold (RFC 8259 section 6); at one
	// value per nanosecond it lasts 104 days.
	MaxCount = 1 << 53
)

const (
	subBits = 6 // buckets per factor of two, as a power of two
	subs    = 1 << subBits
	buckets = topShift<<subBits + int(Highest>>topShift) + 1

	topShift = 35 // shift of Highest: 2^(35+6) ≤ 1 h < 2^(35+7) ns

	source = "histogram" // of the facts returned here
)

// ErrTooMany reports that a histogram would hold more than MaxCount values.
var ErrTooMany = errors.New("histogram holds too many values")

// Recorder counts durations as they are measured. The zero value is empty and ready for
// use. It is a plain value of 19 kB: assignment copies it whole, and one goroutine may use
// it at a time.
type Recorder struct {
	counts [buckets]uint64
	totals
}

// Record adds one value. It does not allocate and takes no lock, so that a
// measuring loop may call it.
func (r *Recorder) Record(d time.Duration) { r.Add(d, 1) }

// Add adds one value n times; n is at least 1.
func (r *Recorder) Add(d time.Duration, n uint64) {
	v := int64(d)
	sum := int128{hi: v >> 63, lo: uint64(v)}
	if n != 1 {
		sum = product(v, n)
	}
	r.join(totals{total: n, min: v, max: v, sum: sum})
	switch {
	case v < int64(Lowest):
		r.below += n
	case v > int64(Highest):
		r.above += n
	default:
		r.counts[bucketOf(uint64(v))] += n
	}
}

// Histogram returns the values recorded so far.
func (r *Recorder) Histogram() *Histogram {
	h := &Histogram{totals: r.totals}
	var w writer
	for i, n := range r.counts {
		if n > 0 {
			w.put(i, n)
		}
	}
	h.counts = string(w.b)
	return h
}

// Histogram is the result of a Recorder. The zero value is empty. It is a plain value: ==
// compares it. A session holds many thousands of them: each takes about 3 bytes per occupied
// bucket.
type Histogram struct {
	counts string // of the occupied buckets, in binary form
	totals
}

// totals are the exact statistics.
type totals struct {
	below, above uint64 // values outside Lowest…Highest
	total        uint64 // of all values
	min, max     int64  // of all values in ns; 0 while total is 0
	sum          int128 // of all values in ns
}

// join adds o, which must not be empty.
func (t *totals) join(o totals) {
	if t.total == 0 {
		*t = o
		return
	}
	t.min, t.max = min(t.min, o.min), max(t.max, o.max)
	t.below, t.above, t.total = t.below+o.below, t.above+o.above, t.total+o.total
	t.sum = t.sum.add(o.sum)
}

// Merge adds all values of o, as if they had been recorded together. o is not changed and may
// be h itself. If the sum exceeds MaxCount values, Merge returns an error that wraps ErrTooMany
// and leaves h unchanged.
func (h *Histogram) Merge(o *Histogram) error {
	if o.total > MaxCount || h.total > MaxCount-o.total {
		return fmt.Errorf("merge %d and %d values: %w", h.total, o.total, ErrTooMany)
	}
	if o.total == 0 {
		return nil
	}
	var all Recorder
	for _, from := range []*Histogram{h, o} {
		for i, n := range from.occupied() {
			all.counts[i] += n
		}
	}
	all.totals = h.totals
	all.join(o.totals)
	*h = *all.Histogram()
	return nil
}

// Count returns the number of all values, including those outside the range.
func (t *totals) Count() uint64 { return t.total }

// Below returns how many values were less than Lowest: zero from a clock coarser than the
// latency, negative from a clock that stepped back.
func (t *totals) Below() uint64 { return t.below }

// Above returns how many values were greater than Highest.
func (t *totals) Above() uint64 { return t.above }

// Min returns the exact least value, unknown if the histogram is empty.
func (t *totals) Min() fact.Of[time.Duration] { return t.exact(t.min) }

// Max returns the exact greatest value, unknown if the histogram is empty.
func (t *totals) Max() fact.Of[time.Duration] { return t.exact(t.max) }

// Mean returns the mean of all values, rounded to a nanosecond, unknown if the histogram is
// empty.
func (t *totals) Mean() fact.Of[time.Duration] {
	if t.total == 0 {
		return t.exact(0)
	}
	return t.exact(t.sum.divide(t.total))
}

// Quantile returns the value at rank ⌈q n⌉ of the n recorded, 0.5 for the median and 0.999 for
// p99.9, with a relative error below MaxError. The first and the last rank, so also q of 0 and
// 1, are exact. It is unknown if the histogram is empty, if q is not between 0 and 1, or if the
// rank falls among values outside Lowest…Highest.
func (h *Histogram) Quantile(q float64) fact.Of[time.Duration] {
	if !(q >= 0 && q <= 1) {
		return fact.Unknown[time.Duration](fmt.Sprintf("quantile %v is not between 0 and 1", q))
	}
	rank := h.rank(q)
	switch {
	case rank <= 1: // includes the empty histogram
		return h.Min()
	case rank == h.total:
		return h.Max()
	case rank <= h.below:
		return fact.Unknown[time.Duration](fmt.Sprintf("below %v", Lowest))
	case rank > h.total-h.above:
		return fact.Unknown[time.Duration](fmt.Sprintf("above %v", Highest))
	}
	seen := h.below
	for i, n := range h.occupied() {
		if seen += n; seen >= rank {
			low, high := edges(i)
			return h.exact(min(h.max, max(h.min, low+(high-low)/2)))
		}
	}
	panic("hist: fewer values in buckets than counted")
}

// Lacks says why answers are too few for quantile q, given lost requests without an answer; ""
// if they suffice. At least one answer has to lie above the quantile, and a lost request counts
// as longer than any answer.
func Lacks(q float64, answers, lost uint64) string {
	above := (1 - q) * (1 + 1e-9) // 1 - 0.99 is below 0.01 in binary
	switch {
	case float64(answers)*above < 1:
		return fmt.Sprintf("it takes %.0f answers or more, and there are %d", math.Ceil(1/above), answers)
	case float64(lost) > float64(answers+lost)*above:
		return fmt.Sprintf("of %d requests %d were never answered, and it is one of them", answers+lost, lost)
	}
	return ""
}

// Percentile is Quantile, or unknown if there are too few answers for it.
func (h *Histogram) Percentile(q float64, lost uint64) fact.Of[time.Duration] {
	if why := Lacks(q, h.total, lost); why != "" {
		return fact.Unknown[time.Duration](why)
	}
	return h.Quantile(q)
}

// Beyond returns the sum of all values above d, with a relative error below MaxError. Values
// above Highest count as Highest.
func (h *Histogram) Beyond(d time.Duration) time.Duration {
	sum := time.Duration(h.above) * Highest
	for i, n := range h.occupied() {
		low, high := edges(i)
		if middle := time.Duration(low + (high-low)/2); middle > d {
			sum += time.Duration(n) * middle
		}
	}
	return sum
}

// rank returns ⌈q n⌉. The product is reduced slightly, because 0.07 × 100 exceeds 7 in binary.
func (h *Histogram) rank(q float64) uint64 {
	const slack = 1e-12
	return min(h.total, uint64(math.Ceil(q*float64(h.total)*(1-slack))))
}

func (t *totals) exact(ns int64) fact.Of[time.Duration] {
	if t.total == 0 {
		return fact.Unknown[time.Duration]("no values recorded")
	}
	return fact.Known(time.Duration(ns), source)
}

// occupied yields number and count of each occupied bucket, upwards.
func (h *Histogram) occupied() iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		r := reader{rest: h.counts}
		for next := 0; len(r.rest) > 0; next++ {
			gap, n := r.unsigned(), r.unsigned()
			if next += int(gap); !yield(next, n) {
				return
			}
		}
	}
}

// bucketOf returns the bucket of v, in ns, between Lowest and Highest.
func bucketOf(v uint64) int {
	shift := bits.Len64(v|(2*subs-1)) - subBits - 1
	return shift<<subBits + int(v>>shift)
}

// edges returns the least and the greatest value of bucket i in ns.
func edges(i int) (low, high int64) {
	shift := max(0, i>>subBits-1)
	low = int64(i-shift<<subBits) << shift
	return low, min(low+1<<shift-1, int64(Highest))
}
