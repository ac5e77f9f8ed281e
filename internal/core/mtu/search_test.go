package mtu

import (
	"testing"

	"linerate/internal/must"

	"pgregory.net/rapid"
)

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
