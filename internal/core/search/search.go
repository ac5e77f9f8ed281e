// Package search finds the highest rate whose loss stays below a limit.
//
//  1. It tries the highest rate, then the lowest.
//  2. It halves the range between the highest rate that passed and the lowest that
//     failed, by ratio, down to the resolution. It repeats a loss near or above the
//     limit: the majority of three counts.
//  3. It repeats the resulting rate. If more than a third of those runs fail, or all
//     their datagrams together do not show a loss within the limit, the search goes
//     on below that rate.
//
// The state of a search is the list of its trials, so an interrupted one continues from the
// stored runs.
package search

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

const (
	// near is the factor around the limit within which one loss is not conclusive. Loss comes
	// in bursts, so a short run may be off by as much.
	near = 2.0
	// doubt is one minus the confidence of statements on loss: 95 %.
	doubt = 0.05
	// tenacity is how many times the requested repeats are run at a rate whose datagrams do not
	// yet show whether the loss is within the limit.
	tenacity = 3
	// votes is the most trials that decide on one rate near the limit.
	votes = 3
	// maxTrials ends a search on a path with erratic results.
	maxTrials = 100
)

// Trial is one run at one rate.
type Trial struct {
	Rate units.BitRate
	Loss float64 // lost of sent, 0…1
	Lost int64   // datagrams, of Sent
	Sent int64   // datagrams of the window with known fate; 0 if not counted
	// Short says that the sender did not reach Rate, so that the trial did not test the path;
	// it counts as failed.
	Short bool
	// Filling says that less arrived in the window than was sent and not lost: a queue was
	// filling, and loss would have come later. It counts as failed too.
	Filling bool
}

// Validate reports every invalid value of s, joined.
func Validate(s model.RateSearch) error {
	var errs []error
	if !(s.Low > 0) || !(s.High >= s.Low) || math.IsInf(float64(s.High), 1) {
		errs = append(errs, fmt.Errorf("a search from %v to %v: the lower rate must be more than 0, the upper one no less", s.Low, s.High))
	}
	if !(s.Limit >= 0) || s.Limit >= 1 {
		errs = append(errs, fmt.Errorf("loss limit %v is not between 0 and 1", s.Limit))
	}
	if !(s.Resolution > 0) {
		errs = append(errs, fmt.Errorf("resolution %v is not more than 0", s.Resolution))
	}
	if s.Repeats < 1 || s.Repeats > maxTrials/2 {
		errs = append(errs, fmt.Errorf("%d repeats: 1 to %d are possible", s.Repeats, maxTrials/2))
	}
	return errors.Join(errs...)
}

// tally summarises the trials at one rate.
type tally struct {
	rate           units.BitRate
	passed, failed int
	short          int   // of the failed ones
	close          bool  // the first loss was near the limit
	lost, sent     int64 // datagrams of all its trials
	limit          float64
}

// runs returns the number of trials.
func (t tally) runs() int { return t.passed + t.failed }

// within reports whether the datagrams of all trials show that the loss is within the limit:
// the upper end of its one-sided 95 % interval is. That takes at least 3/limit datagrams (the
// rule of three: Hanley and Lippman-Hand 1983). No number can show a limit of 0; there, not one
// datagram may be lost.
func (t tally) within() bool {
	if t.limit == 0 {
		return t.sent > 0 && t.lost == 0
	}
	return t.sent > 0 && stats.AtMost(t.lost, t.sent, t.limit) <= doubt
}

// rates returns the tallies by ascending rate.
func rates(s model.RateSearch, trials []Trial) []tally {
	var all []tally
	for _, t := range trials {
		i, found := slices.BinarySearchFunc(all, t.Rate, func(a tally, r units.BitRate) int {
			switch {
			case a.rate < r:
				return -1
			case a.rate > r:
				return 1
			}
			return 0
		})
		if !found {
			all = slices.Insert(all, i, tally{rate: t.Rate, limit: s.Limit, close: t.Loss > s.Limit/near && t.Loss < s.Limit*near})
		}
		all[i].lost += t.Lost
		all[i].sent += t.Sent
		switch {
		case t.Short:
			all[i].failed++
			all[i].short++
		case t.Loss <= s.Limit && !t.Filling:
			all[i].passed++
		default:
			all[i].failed++
		}
	}
	return all
}

// verdict is the result at a rate.
type verdict int

const (
	open verdict = iota // needs another trial
	pass
	fail
)

// of decides on a rate: it fails if more than a third of its runs do. A single failed run may
// be an accident, and a loss near the limit is inconclusive: then two runs must agree.
func (t tally) of() verdict {
	n := t.runs()
	share := float64(t.lost) / math.Max(1, float64(t.sent)) // of all its runs together
	switch {
	case (t.close || t.failed > 0) && t.passed < 2 && t.failed < 2:
		return open
	case votes*t.failed > n, n > 1 && share > t.limit:
		return fail
	case n > 1 && share > t.limit/near && !t.within(): // so near the limit that more runs would hardly settle it
		return fail
	}
	return pass
}

// bracket returns the highest rate that passed below the lowest that failed, and the latter; 0
// and +Inf if there is none.
func bracket(all []tally) (low, high tally) {
	high.rate = units.BitRate(math.Inf(1))
	for _, t := range all {
		switch t.of() {
		case fail:
			if t.rate < high.rate {
				high = t
			}
		case pass, open:
		}
	}
	for _, t := range all {
		if t.of() == pass && t.rate < high.rate {
			low = t
		}
	}
	return low, high
}

// Next returns the rate to try after trials, and false when the search is over.
func Next(s model.RateSearch, trials []Trial) (units.BitRate, bool) {
	if len(trials) >= maxTrials {
		return 0, false
	}
	all := rates(s, trials)
	for _, t := range all {
		if t.of() == open {
			return t.rate, true
		}
	}
	low, high := bracket(all)
	switch {
	case math.IsInf(float64(high.rate), 1) && low.rate == 0:
		return s.High, true
	case low.rate == 0 && high.rate <= s.Low:
		return 0, false // even the lowest rate fails
	case low.rate == 0:
		return s.Low, true
	case !math.IsInf(float64(high.rate), 1) && float64(high.rate/low.rate) > 1+s.Resolution:
		return units.BitRate(math.Sqrt(float64(low.rate) * float64(high.rate))), true
	case low.runs() < s.Repeats, low.sent > 0 && !low.within() && low.runs() < tenacity*s.Repeats:
		return low.rate, true
	}
	return 0, false
}

// Result is the result of a search.
type Result struct {
	// Found says that the datagrams of all runs at Rate together show a loss within the limit.
	// If it is false and Rate is not 0, that rate passed in its runs, but with too few
	// datagrams to show that.
	Found  bool          `json:"found"`
	Rate   units.BitRate `json:"rate"`   // highest that passed
	Passed int           `json:"passed"` // runs at Rate below the limit
	Runs   int           `json:"runs"`   // runs at Rate
	Loss   float64       `json:"loss"`   // lost of sent, of all those runs together
	Lost   int64         `json:"lost"`   // datagrams
	Sent   int64         `json:"sent"`   // datagrams with known fate
	Most   float64       `json:"most"`   // upper end of the one-sided 95 % interval of Loss (Clopper and Pearson 1934); 1 if not counted
	Worst  float64       `json:"worst"`  // greatest loss of those runs
	Above  units.BitRate `json:"above"`  // lowest rate that failed; 0 if none did
	Failed int           `json:"failed"` // runs at Above over the limit; 0 if all were within it but too near to it
	Tried  int           `json:"tried"`  // runs at Above
	Short  bool          `json:"short"`  // the sender did not reach Above: its own limit, not the path's
	// Sure is the least share of runs at Rate that stay below the limit, with
	// 95 % confidence (Clopper and Pearson 1934): 0.05^(1/n) when all n passed.
	Sure  float64 `json:"sure"`
	Ended bool    `json:"ended"` // false if it was cut short
}

// Evaluate returns the result of trials.
func Evaluate(s model.RateSearch, trials []Trial) Result {
	low, high := bracket(rates(s, trials))
	r := Result{Found: low.rate > 0 && low.within(), Rate: low.rate, Passed: low.passed, Runs: low.runs(), Lost: low.lost, Sent: low.sent, Most: mostShare(low.lost, low.sent)}
	if low.sent > 0 {
		r.Loss = float64(low.lost) / float64(low.sent)
	}
	for _, t := range trials {
		if t.Rate == low.rate {
			r.Worst = max(r.Worst, t.Loss)
		}
	}
	if !math.IsInf(float64(high.rate), 1) {
		r.Above, r.Failed, r.Tried = high.rate, high.failed, high.passed+high.failed
		r.Short = high.failed > 0 && high.short == high.failed
	}
	if r.Runs > 0 {
		r.Sure, _ = stats.ShareBounds(int64(r.Passed), int64(r.Runs), 1-doubt)
	}
	_, more := Next(s, trials)
	r.Ended = !more && len(trials) < maxTrials
	return r
}

// mostShare returns the upper end of the one-sided 95 % interval for the share k of n, 1
// without trials.
func mostShare(k, n int64) float64 {
	if n <= 0 {
		return 1
	}
	_, most := stats.ShareBounds(k, n, 1-doubt)
	return most
}
