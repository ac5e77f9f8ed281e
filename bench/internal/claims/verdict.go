package claims

import (
	"fmt"

	"linerate/bench/internal/stand"
)

// judge says whether got keeps to the bar, by how much it misses it, or why
// that cannot be said: with busy cores of others, two-core ratios mean little.
// Numbers are judged as they are printed, with two digits after the point.
func judge(got float64, atLeast bool, bar, busy float64) string {
	if busy > stand.BusyLimit {
		return fmt.Sprintf("not judged: others kept %.2f cores busy", busy)
	}
	const half = 0.005
	switch {
	case atLeast && got < bar-half:
		return fmt.Sprintf("missed by %.0f %%", max(1, (bar-got)/bar*100))
	case !atLeast && got > bar+half:
		return fmt.Sprintf("missed by %.0f %%", max(1, (got-bar)/bar*100))
	}
	return "met"
}

// against prints a ratio and to whom it is.
func against(spread fmt.Stringer, peer string) string { return fmt.Sprintf("%s of %s", spread, peer) }

// noPeer is the verdict where nobody is left to be compared with.
const noPeer = "not judged: no peer"
