package plan

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"

	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Defaults of a message-size sweep (statistics.md section 9).
const (
	DefaultSmallest units.Bytes = 1
	DefaultLargest  units.Bytes = 8 << 20
	// LeastSweeps is the least number of sweeps that can distinguish a drop from noise, and the
	// default.
	LeastSweeps = stats.DropSweeps
	// SizeOffset is the distance of the neighbours that are measured on either side of each
	// size, to show the edges of buffers.
	SizeOffset units.Bytes = 3
)

// Limits of a sweep, so that a mistyped number fails at once.
const (
	sizeLimit  units.Bytes = 1 << 30
	sweepLimit             = 1000
)

// SweepOptions are the user's choices for a message-size sweep. The zero value works.
type SweepOptions struct {
	Smallest units.Bytes // of the sizes before their neighbours; 0 is 1 B
	Largest  units.Bytes // of the sizes before their neighbours, at most 1 GiB; 0 is 8 MiB
	Sweeps   int         // from LeastSweeps to 1000; 0 is LeastSweeps
	Seed     uint64      // any number; the same one gives the same order
}

// Sweep is the plan of a message-size curve: all sizes, and the order of each
// sweep. One sweep is one block, measured completely or not at all.
type Sweep struct {
	Sizes []units.Bytes   // ascending, each once
	Order [][]units.Bytes // per sweep, each a permutation of Sizes
	Seed  uint64
}

// sweepStream is the PCG stream of the order of sizes, distinct from other uses of a seed.
const sweepStream = 0x7377656570 // "sweep"

// NewSweep returns the plan of a message-size sweep, or every fault of o, joined. More sweeps
// with the same seed only add to the end, so that a sweep can be extended. Sizes come in random
// order, because in ascending order a drift of the path would look like an effect of the size.
func NewSweep(o SweepOptions) (Sweep, error) {
	o.Smallest = cmp.Or(o.Smallest, DefaultSmallest)
	o.Largest = cmp.Or(o.Largest, DefaultLargest)
	o.Sweeps = cmp.Or(o.Sweeps, LeastSweeps)
	var f faults
	f.add(o.Smallest < 1, "smallest size %d is below 1 byte", o.Smallest)
	f.add(o.Largest > sizeLimit, "largest size %d is above %v", o.Largest, sizeLimit)
	f.add(o.Sweeps < LeastSweeps, "%d sweeps cannot tell a drop from noise: at least %d are needed", o.Sweeps, LeastSweeps)
	f.add(o.Sweeps > sweepLimit, "%d sweeps are more than %d", o.Sweeps, sweepLimit)
	sizes := SweepSizes(o.Smallest, min(o.Largest, sizeLimit))
	f.add(len(sizes) == 0, "no power of two and no midpoint lies between %d and %d bytes", o.Smallest, o.Largest)
	if err := errors.Join(f...); err != nil {
		return Sweep{}, err
	}
	s := Sweep{Sizes: sizes, Seed: o.Seed}
	rng := rand.New(rand.NewPCG(o.Seed, sweepStream))
	for range o.Sweeps {
		s.Order = append(s.Order, shuffled(slices.Clone(sizes), rng))
	}
	return s, nil
}

// SweepSizes returns the sizes of a message-size curve, ascending and each once: the powers of
// two and their midpoints 3 × 2^k from smallest to largest, each with the sizes SizeOffset
// bytes below and above it if those are from 1 byte to 1 GiB. The neighbours may lie outside
// the two bounds. It returns nil if smallest is above largest.
func SweepSizes(smallest, largest units.Bytes) []units.Bytes {
	var sizes []units.Bytes
	add := func(base units.Bytes) {
		if base < smallest || base > largest {
			return
		}
		for _, size := range []units.Bytes{base - SizeOffset, base, base + SizeOffset} {
			if size >= 1 && size <= sizeLimit {
				sizes = append(sizes, size)
			}
		}
	}
	largest = min(largest, sizeLimit)
	for power := units.Bytes(1); power <= largest; power *= 2 {
		add(power)
		add(3 * power)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// SweepOrder returns the sizes in the order of sweep number n, 1…, as in NewSweep's plan for
// this seed.
func SweepOrder(sizes []units.Bytes, seed uint64, n int) []units.Bytes {
	rng := rand.New(rand.NewPCG(seed, sweepStream))
	var order []units.Bytes
	for range n {
		order = shuffled(slices.Clone(sizes), rng)
	}
	return order
}
