package matching

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"linerate/internal/core/fleet"
)

// Member is a host to plan for.
type Member struct {
	Limits fleet.Limits
	Taken  []fleet.Span // windows that it is planned in already
}

// LeftOut is a host without a partner in a window, with the reason.
type LeftOut struct {
	Host int
	Why  string
}

// Round pairs members for a window, each at most once (fleet.md section 4): in random order, each
// takes the free one with which it measured least recently. last returns when two places
// measured with each other, in seconds since 1970, 0 for never. Round adds the window to the
// members of each pair.
func Round(members []Member, w fleet.Span, last func(a, b int) int64, rng *rand.Rand) (pairs []fleet.Pair, left []LeftOut) {
	free := make([]fleet.Refusal, len(members))
	for i, m := range members {
		free[i] = m.Limits.Allow(w, m.Taken)
	}
	order := rng.Perm(len(members))
	for at, i := range order {
		if free[i] != fleet.Allowed {
			continue
		}
		best := None
		for _, j := range order[at+1:] {
			if free[j] == fleet.Allowed && (best == None || last(i, j) < last(i, best)) {
				best = j
			}
		}
		if best == None {
			left = append(left, LeftOut{i, "no other host is free then"})
			continue
		}
		for _, k := range []int{i, best} {
			free[k] = fleet.Busy
			members[k].Taken = append(members[k].Taken, w)
		}
		pairs = append(pairs, fleet.Pair{Near: i, Far: best})
	}
	for i, m := range members {
		if why := free[i]; why != fleet.Allowed && !slices.Contains(m.Taken, w) {
			left = append(left, LeftOut{i, string(why)})
		}
	}
	slices.SortFunc(left, func(a, b LeftOut) int { return cmp.Compare(a.Host, b.Host) })
	return pairs, left
}

// step is the distance of the beginnings that Earliest tries, in seconds.
const step = 5

// Earliest returns the first window of a length from a moment on in which both members may
// measure, and adds it to both. It looks at a time of horizon; all numbers are in seconds.
func Earliest(a, b *Member, from, length, horizon int64) (fleet.Span, error) {
	why := fleet.Allowed
	for at := from; at < from+horizon; at += step {
		w := fleet.Span{From: at, Until: at + length}
		if why = cmp.Or(a.Limits.Allow(w, a.Taken), b.Limits.Allow(w, b.Taken)); why == fleet.Allowed {
			a.Taken, b.Taken = append(a.Taken, w), append(b.Taken, w)
			return w, nil
		}
	}
	return fleet.Span{}, fmt.Errorf("no window: %s", why)
}

// Window is when two members are to measure with each other.
type Window struct {
	fleet.Pair
	fleet.Span
}

// Firsts returns the window that Earliest finds for each pair of members that wants one, in their
// order, as far as there is one. It adds them to both.
func Firsts(members []Member, wants func(a, b int) bool, from, length, horizon int64) (all []Window) {
	free := make([][]uint64, len(members)) // a bit for each beginning that Earliest tries; nil is not known
	update := func(i int) {
		free[i] = []uint64{}
		for n, at := 0, from; at < from+horizon; n, at = n+1, at+step {
			if members[i].Limits.Allow(fleet.Span{From: at, Until: at + length}, members[i].Taken) == fleet.Allowed {
				free[i] = append(free[i], make([]uint64, n/64+1-len(free[i]))...)
				free[i][n/64] |= 1 << (n % 64)
			}
		}
	}
	for i := range members {
		for j := range i {
			if !wants(i, j) {
				continue
			}
			for _, k := range []int{i, j} {
				if free[k] == nil {
					update(k)
				}
			}
			for word := range min(len(free[i]), len(free[j])) {
				both := free[i][word] & free[j][word]
				if both == 0 {
					continue
				}
				at := from + int64(word*64+bits.TrailingZeros64(both))*step
				w := fleet.Span{From: at, Until: at + length}
				for _, k := range []int{i, j} {
					members[k].Taken = append(members[k].Taken, w)
					update(k)
				}
				all = append(all, Window{fleet.Pair{Near: i, Far: j}, w})
				break
			}
		}
	}
	return all
}
