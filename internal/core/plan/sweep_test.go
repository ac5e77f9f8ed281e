package plan

import (
	"math/bits"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/core/lists"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func TestSweepSizesFromOneByteToEightMebibytes(t *testing.T) {
	got := SweepSizes(DefaultSmallest, DefaultLargest)
	first := []units.Bytes{
		1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 19, 21, 24, 27, 29, 32, 35, 45, 48, 51, 61, 64, 67, 93, 96, 99,
	}
	must.NoDiff(t, cmp.Diff(first, got[:len(first)]), "first sizes")
	last := []units.Bytes{6291453, 6291456, 6291459, 8388605, 8388608, 8388611}
	must.NoDiff(t, cmp.Diff(last, got[len(got)-len(last):]), "last sizes")
	must.Equal(t, slices.Max(SweepSizes(1, sizeLimit)), sizeLimit, "largest of all sizes")
	// There are 24 powers and 22 midpoints. All but 1, 2, 3, 4, 6, 8, 12 and 16
	// are so far apart that each has two neighbours of its own.
	must.Equal(t, lists.Count(got, func(size units.Bytes) bool { return size >= 21 }), 3*(46-8))
}

// onGrid reports whether n is a power of two or a midpoint between two of them.
func onGrid(n units.Bytes) bool {
	if n < 1 {
		return false
	}
	odd := uint64(n) >> bits.TrailingZeros64(uint64(n))
	return odd == 1 || odd == 3
}

func TestSweepSizesAreTheGridAndItsNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := units.Bytes(rapid.Int64Range(1, 5000).Draw(t, "smallest"))
		high := units.Bytes(rapid.Int64Range(1, 5000).Draw(t, "largest"))
		got := SweepSizes(low, high)
		var want []units.Bytes
		base := func(n units.Bytes) bool { return onGrid(n) && n >= low && n <= high }
		for n := units.Bytes(1); n <= 5003; n++ {
			if base(n) || base(n-3) || base(n+3) {
				want = append(want, n)
			}
		}
		must.Need(t, slices.Equal(want, got), "sizes %d, want %d", got, want)
	})
}

func TestSweepOrder(t *testing.T) {
	s := must.Get(NewSweep(SweepOptions{Seed: 7}))(t)
	must.Need(t, len(s.Order) == LeastSweeps && s.Seed == 7, "%d sweeps, seed %d", len(s.Order), s.Seed)
	for i, order := range s.Order {
		must.True(t, !slices.IsSorted(order), "sweep %d is in ascending order", i)
		must.True(t, i <= 0 || !slices.Equal(order, s.Order[i-1]), "sweeps %d and %d have one order", i-1, i)
	}
	other := must.Get(NewSweep(SweepOptions{Seed: 8}))(t)
	must.True(t, !slices.Equal(other.Order[0], s.Order[0]) && slices.Equal(other.Sizes, s.Sizes), "another seed must change the order, and nothing else")
}

func TestSweepLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := SweepOptions{
			Smallest: units.Bytes(rapid.Int64Range(1, 64).Draw(t, "smallest")),
			Largest:  units.Bytes(rapid.Int64Range(128, 1<<30).Draw(t, "largest")),
			Sweeps:   rapid.IntRange(LeastSweeps, 12).Draw(t, "sweeps"),
			Seed:     rapid.Uint64().Draw(t, "seed"),
		}
		s := must.Get(NewSweep(o))(t)
		for _, order := range s.Order {
			must.Need(t, slices.Equal(slices.Sorted(slices.Values(order)), s.Sizes), "%v is no permutation of %v", order, s.Sizes)
		}
		o.Sweeps++
		d := cmp.Diff(s.Order, must.Get(NewSweep(o))(t).Order[:len(s.Order)])
		must.Need(t, d == "", "one sweep more changes the others:\n%s", d)
	})
}

// The order must not favour a place for any size: over many sweeps, each size is at each place
// equally often, within five standard errors.
func TestSweepOrderIsUniform(t *testing.T) {
	s := must.Get(NewSweep(SweepOptions{Smallest: 8, Largest: 16, Sweeps: sweepLimit, Seed: 1}))(t)
	n := len(s.Sizes)
	for _, size := range s.Sizes {
		count := make([]int, n)
		for _, order := range s.Order {
			count[slices.Index(order, size)]++
		}
		for place, c := range count {
			mean := float64(sweepLimit) / float64(n)
			d := float64(c) - mean
			must.True(t, d*d <= 25*mean, "size %d is %d times at place %d, expected %.0f", size, c, place, mean)
		}
	}
}

func TestSweepFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		o    SweepOptions
		want []string
	}{
		{"negative", SweepOptions{Smallest: -1}, []string{"smallest size -1"}},
		{"huge", SweepOptions{Largest: 1<<63 - 1}, []string{"largest size"}},
		{"crossed", SweepOptions{Smallest: 64, Largest: 32}, []string{"between 64 and 32"}},
		{"between the sizes", SweepOptions{Smallest: 33, Largest: 47}, []string{"between 33 and 47"}},
		{"few", SweepOptions{Sweeps: 4}, []string{"4 sweeps", "at least 5"}},
		{"many", SweepOptions{Sweeps: 1001}, []string{"1001 sweeps"}},
		{"several", SweepOptions{Smallest: -3, Largest: -2, Sweeps: -1}, []string{"smallest", "-1 sweeps", "no power"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := NewSweep(c.o)
			must.Need(t, err != nil && s.Sizes == nil, "sizes %v, error %v", s.Sizes, err)
			for _, w := range c.want {
				must.Contain(t, err.Error(), w)
			}
		})
	}
}

func TestSweepOrderIsThePlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := SweepOptions{Sweeps: rapid.IntRange(LeastSweeps, 12).Draw(t, "sweeps"), Seed: rapid.Uint64().Draw(t, "seed")}
		s := must.Get(NewSweep(o))(t)
		n := rapid.IntRange(1, o.Sweeps).Draw(t, "n")
		got := SweepOrder(s.Sizes, o.Seed, n)
		must.Need(t, slices.Equal(got, s.Order[n-1]), "sweep %d: %v, want %v", n, got, s.Order[n-1])
	})
}
