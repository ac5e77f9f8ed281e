package mtu

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

// TestTheArticle has the article's hosts, whose drivers disagree: on Windows XP the card takes
// frames of 1514, 4088 or 9014 bytes, and em of FreeBSD any packet up to 16110.
func TestTheArticle(t *testing.T) {
	windows := Side{Name: "xp", Only: []int{1514, 4088, 9014}, Counts: Frames}
	freebsd := Side{Name: "bsd", Min: 72, Max: 16110}
	got := must.Get(Largest(windows, freebsd))(t)
	must.True(t, got.MTU == 9000 && got.Why == "xp takes only 1500, 4074, 9000, counted as frames of 14 bytes more; bsd takes 576 to 16110", "%+v", got)
	// "Both at 9014" is no agreement: one counts the header.
	if err := Check(9014, windows, freebsd); !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), "xp takes only") || strings.Contains(err.Error(), "bsd takes") {
		t.Errorf("9014: %v", err)
	}
	must.OK(t, Check(9000, windows, freebsd), "9000")
	got, err := Largest(windows, Side{Name: "old", Max: 4088})
	must.True(t, err == nil && got.MTU == 4074, "with a driver that ends at 4088: %+v, %v", got, err)
	got, err = Largest(Side{Name: "xp", Max: 9014, Counts: Frames}, Side{Name: "bsd", Max: 4088})
	must.True(t, err == nil && got.MTU == 4088, "4088 against 9014 as ranges: %+v, %v", got, err)
}

func TestLargest(t *testing.T) {
	for name, c := range map[string]struct {
		sides []Side
		want  int
		err   error
	}{
		"one tells nothing":   {[]Side{{Name: "a"}, {Name: "b", Max: 9000}}, 9000, nil},
		"nobody tells":        {[]Side{{Name: "a"}, {Name: "b", Min: 68}}, 0, ErrUnknown},
		"nothing in common":   {[]Side{{Name: "a", Min: 1500, Max: 9000}, {Name: "b", Max: 1280}}, 0, ErrNone},
		"lists without match": {[]Side{{Name: "a", Only: []int{4000}}, {Name: "b", Only: []int{4014}}}, 0, ErrNone},
		"lists by header":     {[]Side{{Name: "a", Only: []int{4000}}, {Name: "b", Only: []int{4014}, Counts: Frames}}, 4000, nil},
		"above IPv4":          {[]Side{{Name: "a", Max: 1 << 20}}, Most, nil},
		"IPv6":                {[]Side{{Name: "a", Max: 1000, Floor: 1280}}, 0, ErrNone},
	} {
		got, err := Largest(c.sides...)
		must.True(t, got.MTU == c.want && errors.Is(err, c.err), "%s: %+v, %v", name, got, err)
	}
}

// TestLaws: all hosts take the largest size, and none above it works for all; the order of the
// hosts does not matter.
func TestLaws(t *testing.T) {
	side := rapid.Custom(func(t *rapid.T) Side {
		s := Side{Name: "x", Min: rapid.IntRange(0, 2000).Draw(t, "min"), Counts: Counting(rapid.IntRange(0, 1).Draw(t, "counts"))}
		if rapid.Bool().Draw(t, "tells") {
			s.Max = rapid.IntRange(1, 70000).Draw(t, "max")
		}
		if rapid.Bool().Draw(t, "lists") {
			s.Only = rapid.SliceOfN(rapid.SampledFrom([]int{1500, 1514, 4074, 4088, 9000, 9014}), 1, 4).Draw(t, "only")
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := side.Draw(t, "a"), side.Draw(t, "b")
		got, err := Largest(a, b)
		back, backErr := Largest(b, a)
		must.Need(t, got.MTU == back.MTU && (err == nil) == (backErr == nil), "%+v %v, in the other order %+v %v", got, err, back, backErr)
		for n := Least; n <= Most; n += 1 + n%7 {
			must.Need(t, !a.Takes(n) || !b.Takes(n) || n <= got.MTU || errors.Is(err, ErrUnknown), "%d is taken by both, %+v %v", n, got, err)
		}
		must.Need(t, err != nil || Check(got.MTU, a, b) == nil, "%d is not taken", got.MTU)
	})
}

func TestFarFirst(t *testing.T) {
	for _, c := range []struct {
		from, to int
		want     bool
	}{{1500, 9000, true}, {9000, 1500, false}, {1500, 1500, true}, {0, 9000, true}} {
		must.Equal(t, FarFirst(c.from, c.to), c.want, "%d to %d", c.from, c.to)
	}
	// The far host changes only while the near one holds the smaller value, even in undo, which
	// goes the other way.
	rapid.Check(t, func(t *rapid.T) {
		from, to := rapid.IntRange(Least, Most).Draw(t, "from"), rapid.IntRange(Least, Most).Draw(t, "to")
		holds := func(farFirst bool, before, after int) int {
			if farFirst {
				return before
			}
			return after
		}
		n := holds(FarFirst(from, to), from, to)
		must.Need(t, n == min(from, to), "%d to %d: the near host holds %d", from, to, n)
		n = holds(!FarFirst(from, to), to, from)
		must.Need(t, n == min(from, to), "undo of %d to %d: the near host holds %d", from, to, n)
	})
}

func TestMismatch(t *testing.T) {
	a, b := Side{Name: "desk", Now: 1500}, Side{Name: "nas", Now: 9000}
	got := Mismatch(a, b)
	must.True(t, got == Mismatch(b, a) && strings.HasPrefix(got, "nas has an MTU of 9000 and desk one of 1500: TCP uses the smaller"), "%v", got)
	must.Equal(t, Mismatch(a, a)+Mismatch(a, Side{}), "")
}

func TestWay(t *testing.T) {
	ask := Way{From: "a", To: "b", Asked: 9000, Passes: 1500, Exact: true}
	with := func(f func(*Way)) Way { w := ask; f(&w); return w }
	for name, c := range map[string]struct {
		way  Way
		want string
	}{
		"black hole": {ask, "the path from a to b passes packets of 1500 bytes, not 9000: something between them has a smaller MTU and drops larger packets silently (a black hole)"},
		"router": {with(func(w *Way) { w.Reported, w.Router, w.MTU = true, "10.0.0.1", 1500 }),
			"the path from a to b passes packets of 1500 bytes, not 9000, and says so (router 10.0.0.1: MTU 1500): TCP copes, but gains nothing by the larger MTU there, and larger datagrams are refused"},
		"old router": {with(func(w *Way) { w.Reported = true }),
			"the path from a to b passes packets of 1500 bytes, not 9000, and says so (a router): TCP copes, but gains nothing by the larger MTU there, and larger datagrams are refused"},
		"the other end": {with(func(w *Way) { w.ToMTU = 1500 }), "the path from a to b passes packets of 1500 bytes, not 9000: b has an MTU of 1500 and drops larger packets silently"},
		"end is large":  {with(func(w *Way) { w.ToMTU = 9000 }), ask.String()},
		"roughly":       {with(func(w *Way) { w.Exact = false }), "the path from a to b passes packets of at least 1500 bytes, not 9000: something between them has a smaller MTU and drops larger packets silently (a black hole)"},
		"whole":         {with(func(w *Way) { w.Passes = 9000 }), "the path from a to b passes packets of 9000 bytes"},
		"dead":          {with(func(w *Way) { w.Passes = 0 }), "b does not answer a any more, not even small packets"},
	} {
		must.Equal(t, c.way.String(), c.want, "%s", name)
	}
}

// TestJudge checks the kinds of trouble of diagnosis.md section 6.1.
func TestJudge(t *testing.T) {
	full := Way{From: "a", To: "b", Asked: 1500, Passes: 1500, ToMTU: 1500}
	cut := func(passes int, change func(*Way)) Way {
		w := Way{From: "a", To: "b", Asked: 9000, Passes: passes, Exact: true, ToMTU: 9000}
		if change != nil {
			change(&w)
		}
		return w
	}
	for name, c := range map[string]struct {
		way   Way
		known bool
		tcp   Transfer
		want  Trouble
		says  string
	}{
		"all is well":                         {full, true, Transfer{Tried: true, OK: true, Segment: 1448, Remembers: 1500}, Fine, ""},
		"M1: the other end takes less":        {cut(1500, func(w *Way) { w.ToMTU = 1500 }), true, Transfer{Tried: true, OK: true}, Unequal, "an MTU mismatch: a has 9000 and b has 1500"},
		"M1: its card takes more than that":   {cut(2030, func(w *Way) { w.ToMTU = 1500 }), true, Transfer{Tried: true, OK: true}, Unequal, "an MTU mismatch: a has 9000 and b has 1500"},
		"M3: the path takes less still":       {cut(1400, func(w *Way) { w.ToMTU = 1500 }), true, Transfer{Tried: true}, BlackHole, "black hole"},
		"M2: a switch takes less":             {cut(1500, nil), true, Transfer{Tried: true}, BlackHole, "no router says so"},
		"M3: a router that is not heard":      {cut(1400, nil), true, Transfer{Tried: true}, BlackHole, "black hole"},
		"M3: smaller segments arrive":         {cut(1400, nil), true, Transfer{Tried: true, Small: 1360}, BlackHole, "segments of 1360 bytes arrive"},
		"a router that is heard":              {cut(1400, func(w *Way) { w.Reported, w.Router, w.MTU = true, "10.0.0.9", 1400 }), true, Transfer{Tried: true, OK: true}, Small, "router 10.0.0.9 (MTU 1400) says so"},
		"M5: a tag":                           {cut(8996, nil), true, Transfer{Tried: true, OK: true}, Short, "4 bytes short"},
		"M5: a header":                        {cut(8986, nil), true, Transfer{Tried: true, OK: true}, Short, "14 bytes short"},
		"M8: a small path MTU is remembered":  {full, true, Transfer{Tried: true, OK: true, Segment: 1148, Remembers: 1200}, Remembered, "path MTU of 1200"},
		"probes are not answered, TCP is":     {Way{}, false, Transfer{Tried: true, OK: true, Segment: 1448}, Fine, "by TCP"},
		"no small probe is answered, TCP is":  {Way{Asked: 1500}, true, Transfer{Tried: true, OK: true, Segment: 1448}, Fine, "by TCP"},
		"nothing is heard, small segments do": {Way{}, false, Transfer{Tried: true, Small: 536}, BlackHole, "536"},
		"nothing is heard at all":             {Way{}, false, Transfer{Tried: true}, NotSeen, ""},
		"nothing was tried":                   {Way{}, false, Transfer{}, NotSeen, ""},
	} {
		got, text := Judge(c.way, c.known, c.tcp)
		must.True(t, got == c.want && strings.Contains(text, c.says), "%s: %d %q, want %d", name, got, text, c.want)
	}
}

// TestNext: the search ends at the largest size that passes, whatever it is, and finds the
// common sizes within the tries of a probe.
func TestNext(t *testing.T) {
	tries := func(truth, asked, told int) (int, int) {
		passes, lost, n := 128, asked, 0
		for ; lost-passes > 1 && n < 100; n++ {
			size := Next(passes, lost, told)
			must.Need(t, size > passes && size < lost, "between %d and %d: %d", passes, lost, size)
			if size <= truth {
				passes = size
			} else {
				lost = size
			}
		}
		return passes, n
	}
	rapid.Check(t, func(r *rapid.T) {
		truth := rapid.IntRange(128, 65534).Draw(r, "truth")
		asked := rapid.IntRange(truth+1, 65535).Draw(r, "asked")
		got, _ := tries(truth, asked, rapid.SampledFrom([]int{0, truth, 68}).Draw(r, "told"))
		must.Need(r, got == truth, "%d of %d is found as %d", truth, asked, got)
	})
	for _, c := range [][4]int{{1500, 9000, 0, 2}, {1400, 1500, 1400, 2}, {1420, 1500, 0, 5}, {8986, 9000, 0, 8}, {1300, 1500, 0, 11}} {
		if got, n := tries(c[0], c[1], c[2]); got != c[0] || n > c[3] {
			t.Errorf("%d of %d: %d after %d tries, want %d", c[0], c[1], got, n, c[3])
		}
	}
}
