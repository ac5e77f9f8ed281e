package mtu

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

// TestJudge has the kinds of trouble of diagnosis.md section 6.1.
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
		"M2: a switch takes less":             {cut(1500, nil), true, Transfer{Tried: true}, BlackHole, "nobody says so"},
		"M3: a router that is not heard":      {cut(1400, nil), true, Transfer{Tried: true}, BlackHole, "black hole"},
		"M3: smaller segments arrive":         {cut(1400, nil), true, Transfer{Tried: true, Small: 1360}, BlackHole, "segments of 1360 bytes arrive"},
		"a router that is heard":              {cut(1400, func(w *Way) { w.Told, w.Router, w.MTU = true, "10.0.0.9", 1400 }), true, Transfer{Tried: true, OK: true}, Small, "router 10.0.0.9 (MTU 1400) says so"},
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

// TestNext: the search ends at the largest size that passes, whatever that is, and at
// those that paths have within the tries of a probe.
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
