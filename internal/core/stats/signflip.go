package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// slack prevents rounding from separating numbers that are equal on paper: sums of sign flips,
// ranks and trends of log values (statistics.md section 4.1).
const slack = 1e-12

// SignFlip returns the two-sided p of the hypothesis that every difference was as likely to be
// +D as −D: the share of sign vectors whose sum is at least as far from 0 as the observed one
// (Fisher 1935; statistics.md section 4.1). It is exact up to 20 differences; above, it draws
// 100,000 vectors from rng and counts the observed one among them. rng is not used up to 20 and
// may be nil then. The least possible p is 2^(1−n): five blocks or fewer never reach 0.05. If a
// difference is not finite, p is 1.
func SignFlip(d []float64, rng *rand.Rand) float64 {
	if !allFinite(d) {
		return 1
	}
	sum := 0.0
	for _, v := range d {
		sum += v
	}
	least := math.Abs(sum) - slack
	if len(d) <= ExactFlipBlocks {
		return exactFlips(d, least)
	}
	far, parts := 1, flips(d)
	for range FlipDraws {
		if math.Abs(randomSum(parts, rng)) >= least {
			far++
		}
	}
	return float64(far) / (FlipDraws + 1)
}

// exactFlips counts over all sign vectors, as pairs of one vector for each half of d: every sum
// has few terms, so that rounding errors cannot accumulate.
func exactFlips(d []float64, least float64) float64 {
	half := len(d) / 2
	front, back := signedSums(d[:half]), signedSums(d[half:])
	far := 0
	for _, a := range front {
		for _, b := range back {
			if math.Abs(a+b) >= least {
				far++
			}
		}
	}
	return float64(far) / float64(len(front)*len(back))
}

// signedSums returns Σ ε_i d_i for each of the 2^n sign vectors ε.
func signedSums(d []float64) []float64 {
	sums := []float64{0}
	for _, v := range d {
		for _, s := range sums {
			sums = append(sums, s-v)
		}
		for i := range len(sums) / 2 {
			sums[i] += v
		}
	}
	return sums
}

// flipped are the sums of all sign vectors of eight differences, indexed by a byte whose bits
// mark the negative ones.
type flipped [256]float64

// flips returns the sums for each eight differences, in order; the last group may be smaller.
func flips(d []float64) []flipped {
	var out []flipped
	for part := range slices.Chunk(d, 8) {
		var f flipped
		for vector := range f {
			for i, v := range part {
				if vector>>i&1 == 1 {
					v = -v
				}
				f[vector] += v
			}
		}
		out = append(out, f)
	}
	return out
}

// randomSum returns the sum of a random sign vector.
func randomSum(parts []flipped, rng *rand.Rand) float64 {
	sum, bits := 0.0, uint64(0)
	for i := range parts {
		if i%8 == 0 {
			bits = rng.Uint64()
		}
		sum += parts[i][bits&255]
		bits >>= 8
	}
	return sum
}
