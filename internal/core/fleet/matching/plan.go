package matching

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"

	"linerate/internal/core/fleet"
	"linerate/internal/core/lists"
)

// Member is a host to plan for.
type Member struct {
	Limits fleet.Limits
	Taken  []fleet.Span // windows that it is planned in already
}

// Shared is what some pairs share: at most AtOnce of them measure at a time.
type Shared struct {
	AtOnce     int
	One, Other []bool       // by place: a pair with one host in each shares it
	Taken      []fleet.Span // windows of pairs that share it
}

func (s *Shared) has(a, b int) bool { return s.One[a] && s.Other[b] || s.One[b] && s.Other[a] }

// Fleet is what windows are planned for.
type Fleet struct {
	Members []Member
	Shared  []Shared
}

// room reports whether what a pair shares with others is free in a window.
func (f *Fleet) room(a, b int, w fleet.Span) bool {
	for i := range f.Shared {
		s, busy := &f.Shared[i], 0
		if !s.has(a, b) {
			continue
		}
		for _, t := range s.Taken {
			if t.Overlaps(w) {
				busy++
			}
		}
		if busy >= s.AtOnce {
			return false
		}
	}
	return true
}

// take adds a window to two members, and to what they share.
func (f *Fleet) take(a, b int, w fleet.Span) {
	for _, k := range []int{a, b} {
		f.Members[k].Taken = append(f.Members[k].Taken, w)
	}
	for i := range f.Shared {
		if s := &f.Shared[i]; s.has(a, b) {
			s.Taken = append(s.Taken, w)
		}
	}
}

// Round pairs members for a window, each at most once (fleet.md section 4): in random order, each
// takes the free one with which it measured least recently. last returns when two places
// measured with each other, in seconds since 1970, 0 for never. Round adds the window to the
// members of each pair, and to what they share.
func (f *Fleet) Round(w fleet.Span, last func(a, b int) int64, rng *rand.Rand) (pairs []fleet.Pair) {
	free := lists.Each(f.Members, func(m Member) bool { return m.Limits.Allow(w, m.Taken) == fleet.Allowed })
	order := rng.Perm(len(free))
	for at, i := range order {
		best := None
		for _, j := range order[at+1:] {
			if free[i] && free[j] && (best == None || last(i, j) < last(i, best)) && f.room(i, j, w) {
				best = j
			}
		}
		if best != None {
			free[i], free[best] = false, false
			f.take(i, best, w)
			pairs = append(pairs, fleet.Pair{Near: i, Far: best})
		}
	}
	return pairs
}

// step is the distance of the beginnings that Earliest tries, in seconds.
const step = 5

// Earliest returns the first window of a length from a moment on in which two members may
// measure, and takes it. It looks at a time of horizon; all numbers are in seconds.
func (f *Fleet) Earliest(a, b int, from, length, horizon int64) (fleet.Span, error) {
	one, other, why := &f.Members[a], &f.Members[b], fleet.Allowed
	for at := from; at < from+horizon; at += step {
		w := fleet.Span{From: at, Until: at + length}
		if why = cmp.Or(one.Limits.Allow(w, one.Taken), other.Limits.Allow(w, other.Taken)); why != fleet.Allowed {
			continue
		}
		if f.room(a, b, w) {
			f.take(a, b, w)
			return w, nil
		}
		why = "what they share with other paths is in use"
	}
	return fleet.Span{}, fmt.Errorf("no window: %s", why)
}

// Window is when two members are to measure with each other.
type Window struct {
	fleet.Pair
	fleet.Span
}

// Firsts returns the window that Earliest finds for each pair of members that wants one, in their
// order, as far as there is one. It takes them all.
func (f *Fleet) Firsts(wants func(a, b int) bool, from, length, horizon int64) (all []Window) {
	free := make([][]uint64, len(f.Members)) // a bit for each beginning that Earliest tries; nil is not known
	update := func(i int) {
		m := &f.Members[i]
		free[i] = []uint64{}
		for n, at := 0, from; at < from+horizon; n, at = n+1, at+step {
			if m.Limits.Allow(fleet.Span{From: at, Until: at + length}, m.Taken) == fleet.Allowed {
				free[i] = append(free[i], make([]uint64, n/64+1-len(free[i]))...)
				free[i][n/64] |= 1 << (n % 64)
			}
		}
	}
	first := func(i, j int) (w fleet.Span, found bool) {
		for word := range min(len(free[i]), len(free[j])) {
			for both := free[i][word] & free[j][word]; both != 0; both &= both - 1 {
				w.From = from + int64(word*64+bits.TrailingZeros64(both))*step
				if w.Until = w.From + length; f.room(i, j, w) {
					return w, true
				}
			}
		}
		return w, false
	}
	for i := range f.Members {
		for j := range i {
			if !wants(i, j) {
				continue
			}
			for _, k := range []int{i, j} {
				if free[k] == nil {
					update(k)
				}
			}
			if w, found := first(i, j); found {
				f.take(i, j, w)
				update(i)
				update(j)
				all = append(all, Window{fleet.Pair{Near: i, Far: j}, w})
			}
		}
	}
	return all
}
