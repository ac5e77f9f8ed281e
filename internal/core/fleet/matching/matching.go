// Package matching decides which hosts measure with each other at the same time: in a round
// every host is in at most one pair.
package matching

import (
	"math/rand/v2"
	"slices"

	"linerate/internal/core/fleet"
)

// None is the partner of a host that pauses in a round.
const None = -1

// Partner returns the place that place p of n is paired with in a round, counted from 0. It is
// the circle method (fleet.md section 4): i and j meet in round (i+j) mod (m-1), where m is n
// or the even number above it, and the last place m-1 meets i in round 2i mod (m-1).
func Partner(n, round, p int) int {
	m := n + n%2
	if m < 2 {
		return None
	}
	fixed, turns := m-1, m-1
	round %= turns
	partner := (round - p%turns + turns) % turns
	if p == fixed {
		partner = round * (m / 2) % turns // m/2 is 1/2 modulo the odd m-1
	} else if partner == p {
		partner = fixed
	}
	if partner >= n {
		return None
	}
	return partner
}

// Rounds returns the rounds that pair n hosts, each pair once, with the places and the order of
// the rounds drawn from rng.
func Rounds(n int, rng *rand.Rand) [][]fleet.Pair {
	host := rng.Perm(n)
	rounds := make([][]fleet.Pair, max(0, n+n%2-1))
	for r := range rounds {
		for p := range n {
			if q := Partner(n, r, p); q > p {
				rounds[r] = append(rounds[r], fleet.Pair{Near: min(host[p], host[q]), Far: max(host[p], host[q])})
			}
		}
	}
	rng.Shuffle(len(rounds), func(i, j int) { rounds[i], rounds[j] = rounds[j], rounds[i] })
	return rounds
}

// AtMost splits rounds so that none has more than most pairs; 0 is no limit.
func AtMost(most int, rounds [][]fleet.Pair) (out [][]fleet.Pair) {
	for _, pairs := range rounds {
		if most <= 0 {
			out = append(out, pairs)
			continue
		}
		out = slices.AppendSeq(out, slices.Chunk(pairs, most))
	}
	return out
}
