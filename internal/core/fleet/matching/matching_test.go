package matching

import (
	"math/rand/v2"
	"testing"

	"linerate/internal/core/fleet"
	"linerate/internal/must"
)

// TestPartner has the vectors of fleet.md section 4.
func TestPartner(t *testing.T) {
	for _, want := range [][]int{{2, 5, 0, 4, 3, 1}, {2, None, 0, 6, 5, 4, 3}} {
		for p, q := range want {
			must.Equal(t, Partner(len(want), 2, p), q, "%d of %d", p, len(want))
		}
	}
	must.Equal(t, Partner(1, 0, 0), None, "a host alone")
}

// TestRounds: all pairs meet once, in as few rounds as possible, and no host is in two pairs of
// one round, even where only some pairs run at a time.
func TestRounds(t *testing.T) {
	for n := range 12 {
		rounds := Rounds(n, rand.New(rand.NewPCG(1, uint64(n))))
		must.Equal(t, len(rounds), max(0, n+n%2-1), "rounds of %d hosts", n)
		for _, most := range []int{0, 1, 2} {
			met := map[fleet.Pair]bool{}
			for _, pairs := range AtMost(most, rounds) {
				busy := map[int]bool{}
				must.True(t, most == 0 || len(pairs) <= most, "%d pairs at a time instead of %d", len(pairs), most)
				for _, p := range pairs {
					must.True(t, p.Near < p.Far && !met[p] && !busy[p.Near] && !busy[p.Far], "%v of %d hosts in %v", p, n, pairs)
					met[p], busy[p.Near], busy[p.Far] = true, true, true
				}
			}
			must.Equal(t, len(met), n*(n-1)/2, "pairs of %d hosts", n)
		}
	}
}
