package mistuned

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"linerate/internal/core/lists"
)

// Row is the result of one case.
type Row struct {
	Case                Case
	Before, After       float64   // goodput measured without the tuner, bit/s
	RTTBefore, RTTAfter float64   // under load, seconds
	Winner              []Set     // proved by the tuner, none if nothing
	Noise               float64   // standard error of the true gain, log ratio
	Without             []float64 // goodput with the winner without each of its settings, if it has several
	Proven              bool
	Low, High           float64 // the interval of the claimed gain, log ratio
	Search, Runs        int     // runs of the search, and including those of the confirmation
	Seconds             float64 // of tuning
	Announced           float64 // seconds that tuning would take if a setting helps a lot, as announced before the first run
	Took                float64 // including all comparisons, seconds
	NotUndone           string  // settings of the hosts that differ afterwards
	Points              int     // of the exhaustive search, each measured once
	Best                float64 // the best of them within the guard, bit/s; 0 if none was measured
	BestWith            []Set
}

// Exhaustive search and truth (p).
const (
	// Repeats is how often an exhaustive search must measure each point to tell a difference
	// from noise at all.
	Repeats = 3
	enough  = 0.95 // of the ceiling or of the exhaustive best
	needed  = 0.97 // of the winner's rate, if reached without a setting, which is then needless
	truth   = 0.02 // minimum error of the truth, for what all its runs have in common
	sure    = 2    // standard errors of the truth that are its own noise
	slack   = 1.2  // how far above a guard's margin a round trip of another run may be
)

// payload is the share of a frame on the wire: 1448 of 1538 bytes, with timestamps.
const payload = 1448.0 / 1538

// Ceiling returns the goodput that the wire carries, bit/s.
func (r Row) Ceiling() float64 { return r.Case.Ceiling * payload }

// Allows reports whether the guard of the case, if it has one, allows a round trip under load:
// twice the one before.
func (r Row) Allows(rtt float64) bool {
	return r.Case.Guard == "" || r.RTTBefore == 0 || rtt <= 2*r.RTTBefore
}

// Full reports whether the wire is so full afterwards that nothing can be better.
func (r Row) Full() bool { return r.After >= enough*r.Ceiling() }

// Reached reports whether the result is good enough, and within the guard.
func (r Row) Reached() bool {
	good := r.Full() || r.Best > 0 && r.After >= enough*r.Best
	return good && (r.Case.Guard == "" || r.RTTAfter <= 2*slack*r.RTTBefore)
}

// Needless returns the settings of the winner without which the result is as good.
func (r Row) Needless() []Set {
	var out []Set
	for i, rate := range r.Without {
		if rate >= needed*r.After {
			out = append(out, r.Winner[i])
		}
	}
	return out
}

// Missed reports whether the claimed interval misses the true gain by more than the noise of
// the truth.
func (r Row) Missed() bool {
	if !r.Proven {
		return false
	}
	gain, off := math.Log(r.After/r.Before), max(truth, sure*r.Noise)
	return gain < r.Low-off || gain > r.High+off
}

// Exhaustive returns how many runs an exhaustive search takes, before it proves anything.
func (r Row) Exhaustive() int { return Repeats * r.Points }

// Changes formats a winner for users.
func Changes(sets []Set) string {
	out := lists.Each(sets, func(s Set) string { return s.Knob + "=" + s.Value })
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

// BestText returns the rate of the exhaustive search in Mbit/s.
func (r Row) BestText() string {
	if r.Best == 0 {
		return "not needed"
	}
	return fmt.Sprintf("%.1f", r.Best/1e6)
}

// Line returns the row in one line.
func (r Row) Line() string {
	word := "reached"
	if !r.Reached() {
		word = "NOT reached"
	}
	return fmt.Sprintf("%s: %.1f -> %.1f of %.1f Mbit/s (exhaustive %s), %s, %d runs, %s", r.Case.Name,
		r.Before/1e6, r.After/1e6, r.Ceiling()/1e6, r.BestText(), Changes(r.Winner), r.Runs, word)
}

// Score summarises all rows.
type Score struct {
	Cases, Reached, Claimed, Missed, Needless, NotUndone int
	Share                                                float64 // of the runs of an exhaustive search, median
	Minutes                                              float64 // of tuning, all cases
}

// Sum returns the score of rows.
func Sum(rows []Row) Score {
	s := Score{Cases: len(rows)}
	var shares []float64
	for _, r := range rows {
		if r.Reached() {
			s.Reached++
		}
		if r.Proven {
			s.Claimed++
		}
		if r.Missed() {
			s.Missed++
		}
		if r.NotUndone != "" {
			s.NotUndone++
		}
		s.Needless += len(r.Needless())
		s.Minutes += r.Seconds / 60
		shares = append(shares, float64(r.Search)/float64(max(1, r.Exhaustive())))
	}
	s.Share = Median(shares)
	return s
}

// Foretold returns how many of the searches with a proven gain took no more than 1.5 times as
// long as announced, and no less than announced by that factor.
func Foretold(rows []Row) (right, proven int) {
	for _, r := range rows {
		if r.Proven {
			proven++
			if r.Seconds <= 1.5*r.Announced && r.Announced <= 1.5*r.Seconds {
				right++
			}
		}
	}
	return right, proven
}

// Minutes returns how long each search with a proven gain took, of twice and more, or of less.
func Minutes(rows []Row, large bool) []float64 {
	proven := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return !r.Proven || large != (r.After >= 2*r.Before) })
	return lists.Each(proven, func(r Row) float64 { return r.Seconds / 60 })
}

// Median returns the median of all, which it sorts; 0 of none.
func Median(all []float64) float64 {
	slices.Sort(all)
	n := len(all)
	if n == 0 {
		return 0
	}
	return (all[(n-1)/2] + all[n/2]) / 2
}
