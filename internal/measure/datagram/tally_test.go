package datagram

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

// judged applies the definitions literally to a list of arrivals, with unlimited memory and
// time.
type judged struct {
	received, duplicates, reordered, extent, total, missing int64
}

func judge(first int64, arrivals []Arrival) judged {
	var out judged
	var came []int64 // first copies, in order of arrival
	seen := map[int64]bool{}
	next := first
	for _, a := range arrivals {
		if seen[a.Seq] {
			if a.Counted {
				out.duplicates++
			}
			continue
		}
		seen[a.Seq] = true
		if a.Seq < next && a.Counted {
			out.reordered++
			// RFC 4737 section 4.2.1: the smallest j with s[j] > s[i].
			j := slices.IndexFunc(came, func(s int64) bool { return s > a.Seq })
			out.extent = max(out.extent, int64(len(came)-j))
		}
		next = max(next, a.Seq+1)
		came = append(came, a.Seq)
		out.total++
		if a.Counted {
			out.received++
		}
	}
	out.missing = next - first - out.total
	return out
}

func verdict(t *Tally) judged {
	return judged{t.Received, t.Duplicates, t.Reordered, t.MaxExtent, t.Total, t.Missing()}
}

// mangle draws what a network may do to n datagrams: some are lost, some duplicated, some
// delayed.
func mangle(t *rapid.T, first int64) []Arrival {
	n := rapid.IntRange(0, 300).Draw(t, "n")
	from := first + int64(rapid.IntRange(0, n).Draw(t, "from"))
	to := from + int64(rapid.IntRange(0, n).Draw(t, "to"))
	type copied struct {
		a  Arrival
		at int
	}
	var all []copied
	seq := first
	for range n {
		seq += int64(rapid.SampledFrom([]int{1, 1, 1, 1, 1, 2, 3, 70}).Draw(t, "step"))
		for range rapid.SampledFrom([]int{1, 1, 1, 1, 0, 2, 3}).Draw(t, "copies") {
			late := rapid.SampledFrom([]int{0, 0, 0, 0, 1, 5, 130}).Draw(t, "late")
			all = append(all, copied{Arrival{Seq: seq - 1, Counted: seq > from && seq <= to}, int(seq) + late})
		}
	}
	slices.SortStableFunc(all, func(a, b copied) int { return a.at - b.at })
	out := make([]Arrival, len(all))
	for i, c := range all {
		out[i] = c.a
	}
	return out
}

func TestTallyAgainstTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom([]int64{0, 1, 1000}).Draw(t, "first")
		arrivals := mangle(t, first)
		tally := NewTally(first, MinMemory)
		for _, a := range arrivals {
			must.Need(t, tally.Add(a) != Stale, "%d is stale after %d", a.Seq, tally.Next())
		}
		got, want := verdict(tally), judge(first, arrivals)
		must.Need(t, got == want, "got %+v, want %+v", got, want)
	})
}

// TestTallyLong wraps around the memory many times.
func TestTallyLong(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 60_000
	type copied struct {
		seq int64
		at  float64
	}
	var all []copied
	for seq := range int64(n) {
		at := float64(seq)
		switch x := rng.Float64(); {
		case x < 0.05: // lost
		case x < 0.10: // late
			all = append(all, copied{seq, at + 300*rng.Float64()})
		case x < 0.15: // doubled
			all = append(all, copied{seq, at}, copied{seq, at + 300*rng.Float64()})
		default:
			all = append(all, copied{seq, at})
		}
	}
	slices.SortStableFunc(all, func(a, b copied) int {
		if a.at < b.at {
			return -1
		}
		return 1
	})
	tally := NewTally(0, MinMemory)
	var arrivals []Arrival
	for _, c := range all {
		a := Arrival{Seq: c.seq, Counted: c.seq >= 1000 && c.seq < 50_000}
		arrivals = append(arrivals, a)
		tally.Add(a)
	}
	// The reference looks at all arrivals, which is slow: compare only the sums that need no
	// look back over the whole.
	want := judge(0, arrivals)
	got := verdict(tally)
	must.True(t, got == want && tally.Stale == 0, "got %+v with %d stale, want %+v", got, tally.Stale, want)
}

func TestTallyForgets(t *testing.T) {
	tally := NewTally(0, 1) // rounded up
	for _, seq := range []int64{0, 2, 1 + MinMemory} {
		tally.Add(Arrival{Seq: seq, Counted: true})
	}
	// The numbers 2 to 1+MinMemory are remembered.
	must.Equal(t, tally.Add(Arrival{Seq: 1, Counted: true}), Stale, "1")
	must.Equal(t, tally.Add(Arrival{Seq: 2, Counted: true}), Duplicate, "2")
	must.Equal(t, tally.Add(Arrival{Seq: 3, Counted: true}), First, "3")
	// A leap beyond the memory clears it.
	tally.Add(Arrival{Seq: 1 << 40, Counted: true})
	must.Equal(t, tally.Add(Arrival{Seq: 1<<40 - MinMemory + 1, Counted: true}), First, "a number in the leap")
	must.Equal(t, tally.Add(Arrival{Seq: -1, Counted: true}), Stale, "-1")
	must.Equal(t, tally.Stale, 2, "stale")
}

// TestExtentForgets reorders more often than is remembered: the extent is then at least as
// large as what is still known.
func TestExtentForgets(t *testing.T) {
	tally := NewTally(0, MaxMemory)
	tally.Add(Arrival{Seq: 1, Counted: true})
	for i := range int64(2 * maxStretches) {
		tally.Add(Arrival{Seq: 3 + 2*i, Counted: true})
	}
	tally.Add(Arrival{Seq: 0, Counted: true})
	must.Equal(t, tally.MaxExtent, maxStretches, "extent")
}

func TestJitter(t *testing.T) {
	tally := NewTally(0, 0)
	add := func(seq int64, sent, at time.Duration, follows bool) {
		tally.Add(Arrival{Seq: seq, Sent: sent, At: at, Counted: true, Follows: follows})
	}
	add(0, 0, 1000, false)
	must.True(t, !tally.Jitter().IsKnown(), "jitter of one datagram")
	// RFC 3550 section 6.4.1 by hand: D = 1600, then -1600, and a follower and a copy, which do
	// not count.
	add(1, 10_000, 12_600, false)
	add(2, 10_000, 99_000, true)
	add(1, 10_000, 70_000, false)
	add(3, 20_000, 21_000, false)
	want := 100 + (1600-100)/16.0
	got := tally.Jitter().Or(0)
	must.True(t, !(math.Abs(float64(got)-want) > 1), "jitter %v, want %v", got, time.Duration(want))
}

func TestVariation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(-1<<60, 1<<60).Draw(t, "offset")
		delays := rapid.SliceOfN(rapid.OneOf(
			rapid.Int64Range(0, 1000), rapid.Int64Range(0, 5e6), rapid.Int64Range(0, 30e9)), 1, 200).Draw(t, "delays")
		tally := NewTally(0, 0)
		for i, d := range delays {
			tally.Add(Arrival{Seq: int64(i), At: time.Duration(offset + d), Counted: true})
		}
		h := tally.Variation()
		slices.Sort(delays)
		got := h.Count()
		must.Need(t, got == uint64(len(delays)), "%d of %d delays", got, len(delays))
		for _, q := range []float64{0, 0.25, 0.5, 0.9, 1} {
			want := float64(delays[max(0, int(math.Ceil(q*float64(len(delays))*(1-1e-12)))-1)] - delays[0])
			got := float64(h.Quantile(q).Or(-1))
			// 128 ns, or 1/64 of the distance from the first, which the range bounds, and the
			// histogram's own error.
			limit := 128 + float64(delays[len(delays)-1]-delays[0])/64 + want/64
			must.Need(t, math.Abs(got-want) <= limit, "quantile %v is %v, want %v", q, got, want)
		}
	})
}

func TestRecordMany(t *testing.T) {
	tally := NewTally(0, 0)
	const n = 123_457
	for i := range int64(n) {
		tally.Add(Arrival{Seq: i, At: time.Duration(i%2) * time.Millisecond, Counted: true})
	}
	h := tally.Variation()
	must.True(t, h.Count() == n && h.Max().Or(0) >= 999*time.Microsecond, "%d values up to %v", h.Count(), h.Max())
}

func TestTallyAllocatesNothing(t *testing.T) {
	tally := NewTally(0, 0)
	seq := int64(0)
	must.Equal(t, testing.AllocsPerRun(1000, func() {
		seq += 2
		tally.Add(Arrival{Seq: seq, Sent: time.Duration(seq), At: time.Duration(3 * seq), Counted: true})
		tally.Add(Arrival{Seq: seq - 1, Counted: true})
	}), 0, "allocations")
}

func BenchmarkTally(b *testing.B) {
	tally := NewTally(0, 1<<20)
	for i := range b.N {
		tally.Add(Arrival{Seq: int64(i), Sent: time.Duration(i), At: time.Duration(i + i&1023), Counted: true})
	}
}
