package matching

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/core/fleet"
	"linerate/internal/must"
)

// auditShared checks that no more pairs than AtOnce share something at a time.
func auditShared(t rapid.TB, f *Fleet) {
	for _, s := range f.Shared {
		for _, w := range s.Taken {
			beside := 0
			for _, o := range s.Taken {
				if o.From <= w.From && w.From < o.Until {
					beside++
				}
			}
			must.True(t, beside <= s.AtOnce, "%d pairs at %d: %+v", beside, w.From, s)
		}
	}
}

// drawShared draws what pairs of n hosts share.
func drawShared(t *rapid.T, n int) (all []Shared) {
	for range rapid.IntRange(0, 2).Draw(t, "shared") {
		side := rapid.SliceOfN(rapid.Bool(), n, n)
		all = append(all, Shared{AtOnce: rapid.IntRange(1, 2).Draw(t, "at once"), One: side.Draw(t, "one"), Other: side.Draw(t, "other")})
	}
	return all
}

// audit checks a host's windows against its limits, by a rule of its own: no second twice, none
// in quiet hours, and in no hour more than the share.
func audit(t rapid.TB, m Member) {
	measures := map[int64]bool{}
	for _, w := range m.Taken {
		for s := w.From; s < w.Until; s++ {
			must.Need(t, !measures[s] && !m.Limits.Quiet.Covers(s), "second %d twice, or in quiet hours: %+v", s, m)
			measures[s] = true
		}
	}
	for _, w := range m.Taken {
		used := 0
		for s := w.From; s < w.From+3600; s++ {
			if measures[s] {
				used++
			}
		}
		if float64(used) > m.Limits.Share*3600+1e-9 {
			t.Fatalf("%d s of the hour from %d on: %+v", used, w.From, m)
		}
	}
}

// TestPlanKeepsLimits: whatever the limits and the windows, no host measures twice at a time or
// beyond its owner's limits, and no two hosts are left out that could measure with each other.
func TestPlanKeepsLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := make([]Member, rapid.IntRange(0, 9).Draw(t, "hosts"))
		for i := range members {
			members[i].Limits.Share = rapid.Float64Range(0, .1).Draw(t, "share")
			if rapid.Bool().Draw(t, "quiet") {
				s := rapid.Int64Range(0, 86399)
				members[i].Limits.Quiet = &fleet.Quiet{From: s.Draw(t, "from"), Until: s.Draw(t, "until"), Zone: 3600 * rapid.Int64Range(-12, 12).Draw(t, "zone")}
			}
		}
		rng, f := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), Fleet{members, drawShared(t, len(members))}
		last := map[fleet.Pair]int64{}
		for at := range int64(rapid.IntRange(1, 12).Draw(t, "windows")) {
			w := fleet.Span{From: 600 * at, Until: 600*at + 25}
			pairs := f.Round(w, func(a, b int) int64 { return last[fleet.Pair{Near: min(a, b), Far: max(a, b)}] }, rng)
			seen := map[int]bool{}
			for _, p := range pairs {
				must.Need(t, !seen[p.Near] && !seen[p.Far], "twice in %v", pairs)
				seen[p.Near], seen[p.Far] = true, true
				last[fleet.Pair{Near: min(p.Near, p.Far), Far: max(p.Near, p.Far)}] = w.From
			}
			may := func(i int) bool { return !seen[i] && f.Members[i].Limits.Allow(w, f.Members[i].Taken) == fleet.Allowed }
			for a := range members {
				for b := range a {
					must.Need(t, !may(a) || !may(b) || !f.room(a, b, w), "%d and %d are left out of %v", a, b, pairs)
				}
			}
			if n := len(members); n > 1 {
				a, b := rng.IntN(n), rng.IntN(n)
				if a != b {
					_, _ = f.Earliest(a, b, w.Until, rapid.Int64Range(1, 200).Draw(t, "length"), 1200)
				}
			}
		}
		for _, m := range members {
			audit(t, m)
		}
		auditShared(t, &f)
	})
}

// TestCoverage: with 8 rounds an hour every pair of 50 hosts has measured after 9 hours, in which
// each meets 72 others, and no host pauses (fleet.md section 4).
func TestCoverage(t *testing.T) {
	members := make([]Member, 50)
	for i := range members {
		members[i].Limits.Share = fleet.DefaultShare
	}
	rng, f := rand.New(rand.NewPCG(5, 0)), Fleet{Members: members}
	last := map[fleet.Pair]int64{}
	key := func(a, b int) fleet.Pair { return fleet.Pair{Near: min(a, b), Far: max(a, b)} }
	for at := range int64(9 * 8) {
		w := fleet.Span{From: 1 + 450*at, Until: 26 + 450*at}
		pairs := f.Round(w, func(a, b int) int64 { return last[key(a, b)] }, rng)
		must.Need(t, len(pairs) == 25, "%d pairs", len(pairs))
		for _, p := range pairs {
			last[key(p.Near, p.Far)] = w.From
		}
	}
	must.Equal(t, len(last), 50*49/2, "pairs")
}

// TestEarliest: the first free window, or why there is none.
func TestEarliest(t *testing.T) {
	free := Member{Limits: fleet.Limits{Share: 1}}
	f := Fleet{Members: []Member{{Limits: free.Limits, Taken: []fleet.Span{{From: 100, Until: 130}}}, free, {}, free}}
	w, err := f.Earliest(0, 1, 90, 25, 1000)
	must.True(t, err == nil && w == fleet.Span{From: 130, Until: 155} && len(f.Members[0].Taken) == 2 && len(f.Members[1].Taken) == 1, "%v, %v", w, err)
	_, err = f.Earliest(1, 2, 90, 25, 1000)
	must.Say(t, err, "share of time is used up")
	f.Shared = []Shared{{AtOnce: 1, One: []bool{true, true, true, true}, Other: []bool{false, false, false, true}, Taken: []fleet.Span{{From: 0, Until: 500}}}}
	_, err = f.Earliest(1, 3, 90, 25, 100)
	must.Say(t, err, "share with other paths")
	night, err := fleet.ParseQuiet("22:00-06:30")
	must.True(t, err == nil && night.Covers(23*3600) && night.Covers(6*3600) && !night.Covers(6*3600+1800) && !night.Covers(12*3600), "%+v, %v", night, err)
	f.Members[2].Limits = fleet.Limits{Share: 1, Quiet: night}
	_, err = f.Earliest(2, 1, 23*3600, 25, 3600)
	must.Say(t, err, "quiet hours")
	for _, bad := range []string{"", "8-18", "08:00", "08:00-24:00", "08:00-08:00", "08:00-18:00x"} {
		must.Fail(t, must.Err(fleet.ParseQuiet(bad)), "%q", bad)
	}
}

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

// TestFirsts: the windows are those of Earliest for one pair after the other.
func TestFirsts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var members, again []Member
		for range rapid.IntRange(2, 9).Draw(t, "hosts") {
			m := Member{Limits: fleet.Limits{Share: rapid.Float64Range(0.02, 0.3).Draw(t, "share")}}
			for range rapid.IntRange(0, 6).Draw(t, "windows") {
				from := rapid.Int64Range(7000, 7800).Draw(t, "from")
				m.Taken = append(m.Taken, fleet.Span{From: from, Until: from + 25})
			}
			members, again = append(members, m), append(again, Member{m.Limits, slices.Clone(m.Taken)})
		}
		f := Fleet{members, drawShared(t, len(members))}
		slow := Fleet{again, slices.Clone(f.Shared)}
		wants := func(a, b int) bool { return (a+b)%3 > 0 }
		var want []Window
		for i := range again {
			for j := range i {
				if !wants(i, j) {
					continue
				}
				if w, err := slow.Earliest(i, j, 7200, 25, 600); err == nil {
					want = append(want, Window{fleet.Pair{Near: i, Far: j}, w})
				}
			}
		}
		must.True(t, slices.Equal(f.Firsts(wants, 7200, 25, 600), want), "want %v", want)
		auditShared(t, &f)
	})
}
