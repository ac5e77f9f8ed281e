package claims

import (
	"fmt"

	"linerate/bench/internal/stand"
)

// judge returns whether got meets the bar, by how much it misses it, or why it is not judged:
// while other work keeps cores busy, ratios on two cores mean little. Values are judged as
// printed, with two decimals.
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

// against prints a ratio and the peer that it refers to.
func against(spread fmt.Stringer, peer string) string { return fmt.Sprintf("%s of %s", spread, peer) }

// noPeer is the verdict if no peer is left to compare with.
const noPeer = "not judged: no peer"
