package datagram

import (
	"math"
	"math/bits"
	"time"

	"linerate/internal/core/hist"
)

// spread counts transit times, receiver's clock minus sender's, whose minimum is known only at
// the end. A histogram whose buckets widen with the value cannot be shifted afterwards. So
// transits near the first one go to buckets of equal width, and the rest to buckets that widen
// with the distance from it, on both sides. Shifting these by less than their own distance
// keeps their precision.
type spread struct {
	begun bool
	base  int64 // the first transit, ns
	least int64 // ns
	fine  []uint64
	far   [2][]uint64 // below, above the fine ones, by distance
}

const (
	fineShift   = 7 // buckets of 128 ns
	fineBuckets = 1 << 15
	fineReach   = fineBuckets / 2 << fineShift // 2.1 ms both ways

	farBits    = 5 // 32 buckets per factor of two
	farBuckets = (63 - farBits + 1) << farBits
)

func newSpread() *spread {
	s := &spread{fine: make([]uint64, fineBuckets)}
	for i := range s.far {
		s.far[i] = make([]uint64, farBuckets)
	}
	return s
}

// add counts one transit, ns.
func (s *spread) add(transit int64) {
	if !s.begun {
		s.begun, s.base, s.least = true, transit, transit
	}
	s.least = min(s.least, transit)
	x := transit - s.base
	if x >= -fineReach && x < fineReach {
		s.fine[(x+fineReach)>>fineShift]++
		return
	}
	if x < 0 {
		s.far[0][farBucket(-x)]++
		return
	}
	s.far[1][farBucket(x)]++
}

// farBucket returns the bucket of a distance, which is at least fineReach.
func farBucket(x int64) int {
	v := uint64(min(max(x, fineReach), math.MaxInt64))
	shift := bits.Len64(v) - farBits - 1
	return shift<<farBits + int(v>>shift)&(1<<farBits-1)
}

// farMiddle returns the middle of a bucket.
func farMiddle(i int) int64 {
	shift := i >> farBits
	return (int64(i&(1<<farBits-1))|1<<farBits)<<shift + (int64(1)<<shift)/2
}

// histogram returns the transits above the least one.
func (s *spread) histogram() *hist.Histogram {
	var h hist.Recorder
	if !s.begun {
		return h.Histogram()
	}
	offset := s.base - s.least // at least 0
	put := func(x int64, n uint64) {
		if n > 0 {
			// The least one is in the same bucket as itself: not below 1 ns,
			// which has no bucket in h.
			h.Add(time.Duration(max(1, x+offset)), n)
		}
	}
	for i, n := range s.far[0] {
		put(-farMiddle(i), n)
	}
	for i, n := range s.fine {
		put(int64(i)<<fineShift+1<<(fineShift-1)-fineReach, n)
	}
	for i, n := range s.far[1] {
		put(farMiddle(i), n)
	}
	return h.Histogram()
}
