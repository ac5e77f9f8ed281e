package packed

import (
	"math"
	mathbits "math/bits"
	"time"

	"linerate/internal/core/model"
)

// formula says how to compute a value from a whole number.
type formula struct {
	unit      unit
	perSecond bool // divided by the length of its interval
}

// unit is the unit of a whole number. The constants are part of the format.
type unit byte

const (
	ones    unit = iota // packets, bytes
	hundred             // ticks of the processor's clock, 1/100 s
	milli
	micro
	nano
	clock // nanoseconds, added as whole seconds and a rest, as time.Duration does
	bytes8
	units // number of units
)

// most limits the whole numbers, so that all are exact as values (IEEE 754, 53 bits).
const most = 1 << 53

// of converts k from the unit.
func (u unit) of(k int64) float64 {
	x := float64(k)
	switch u {
	case hundred:
		return x / 1e2
	case milli:
		return x / 1e3
	case micro:
		return x / 1e6
	case nano:
		return x / 1e9
	case clock:
		return time.Duration(k).Seconds()
	case bytes8:
		return x * 8
	case ones, units:
	}
	return x
}

// in converts x to the unit, without rounding.
func (u unit) in(x float64) float64 {
	switch u {
	case hundred:
		return x * 1e2
	case milli:
		return x * 1e3
	case micro:
		return x * 1e6
	case nano, clock:
		return x * 1e9
	case bytes8:
		return x / 8
	case ones, units:
	}
	return x
}

// value returns the value of k in an interval.
func (f formula) value(k int64, length time.Duration) float64 {
	x := f.unit.of(k)
	if f.perSecond {
		x /= length.Seconds()
	}
	return x
}

// number returns the k whose value is exactly v; false if there is none.
func (f formula) number(v float64, length time.Duration) (k int64, ok bool) {
	x := f.unit.in(v)
	if f.perSecond {
		x *= length.Seconds()
	}
	x = math.Round(x)
	if !(math.Abs(x) < most) { // also true for NaN
		return 0, false
	}
	k = int64(x)
	return k, bits(f.value(k, length)) == bits(v)
}

// code returns the formula as a byte, with a bit for storage as differences.
func (f formula) code(differences bool) byte {
	c := byte(f.unit) << 2
	if f.perSecond {
		c |= 2
	}
	if differences {
		c |= 1
	}
	return c
}

func byCode(c byte) (f formula, differences, ok bool) {
	f = formula{unit(c >> 2), c&2 != 0}
	return f, c&1 != 0, f.unit < units
}

// tried is the number of values by which choose selects a formula.
const tried = 64

// choose returns the formula that stores the first values of a line in the fewest bytes, and
// whether to store them as differences.
func choose(samples []model.Sample, line []int32) (best formula, differences bool) {
	least := math.MaxInt
	line = line[:min(tried, len(line))]
	for u := range units {
		for _, perSecond := range []bool{false, true} {
			f := formula{u, perSecond}
			plain, apart, before := 0, 0, int64(0)
			for _, i := range line {
				k, ok := f.number(samples[i].Value, samples[i].Length)
				if !ok {
					plain, apart = plain+9, apart+9
					continue
				}
				plain += size(zigzag(k) + 1)
				apart += size(zigzag(k-before) + 1)
				before = k
			}
			if plain < least {
				best, differences, least = f, false, plain
			}
			if apart < least {
				best, differences, least = f, true, apart
			}
		}
	}
	return best, differences
}

// size returns how many bytes a number takes.
func size(v uint64) int { return max(1, (mathbits.Len64(v)+6)/7) }

// zigzag maps numbers near 0 of either sign to small unsigned numbers.
func zigzag(k int64) uint64 { return uint64(k<<1) ^ uint64(k>>63) }

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

func bits(v float64) uint64 { return math.Float64bits(v) }
