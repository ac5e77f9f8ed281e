// Package series detects changes of a number that is measured repeatedly: a cumulative sum
// raises a suspicion, and runs that follow at once confirm it (fleet.md section 6). It compares
// a path with its own past, since there are no other hosts to compare it with.
package series

import (
	"math"
	"slices"
	"time"

	"linerate/internal/core/stats"
)

// The constants of fleet.md section 6 (p).
const (
	window     = 28 * 24 * time.Hour // of the past that is used
	fewest     = 3                   // values of a reference
	ofSeason   = 8                   // values of a reference of the same season
	memory     = 168                 // residuals from which the scatter is taken
	leastKnown = 5                   // least number of residuals for a scatter
	leastNoise = 0.01                // of a scatter
	mostScore  = 8                   // of one value, in scatters
	drift      = 1                   // by which the sum falls with each value
	alarm      = 4                   // of the sum
	// MostRuns is the most runs of a confirmation.
	MostRuns = 24
	giveUp   = 20 // evidence that the change is less than the margin
	// E is the evidence that confirms a change. A look without a change reaches it with a
	// chance of at most 1/E (Ville 1939), and has at most one confirmation: one false change in
	// the hours of a year.
	E = 8766
	// ownScatter is how many scatters the level of a path may drift by itself: in the fleet,
	// simultaneous runs of other hosts cancel that drift.
	ownScatter = 1.5
)

// Look is one measurement of a path.
type Look struct {
	At time.Time // its location defines the day
	ID string    // of its session
}

// value is a number of a series; larger is worse.
type value struct {
	Look
	y    float64
	more bool // it is of a confirmation
}

// Series is a number of a path over successive looks, in order. Larger is worse. The zero value
// with a margin set is empty and ready to use.
type Series struct {
	Margin float64 // smaller changes do not count

	values        []value
	from          int       // the first value since the last change
	residuals     []float64 // of the last looks, against the reference at the time
	worse, better Sum
	before        []level // levels that changes left
}

// level is a level before a change.
type level struct {
	worse bool // the next level was worse
	from  int
	y     float64
}

// Sum is a cumulative sum of scores.
type Sum struct {
	C     float64
	since int // the value at which C last left 0
}

// Add adds the score of value i.
func (c *Sum) Add(score float64, i int) {
	was := c.C
	if c.C = max(0, c.C+min(score, mostScore)-drift); was == 0 && c.C > 0 {
		c.since = i
	}
}

// Suspicion is a change that runs have to confirm.
type Suspicion struct {
	Worse     bool
	C         float64
	Reference float64 // the number before
	Margin    float64 // least change to report
	since     int
}

// Add adds the number of a look, and returns the suspicion that it raises.
func (s *Series) Add(l Look, y float64) (Suspicion, bool) {
	ref, n := s.reference(l.At)
	i := len(s.values)
	s.values = append(s.values, value{Look: l, y: y})
	if n == 0 {
		return Suspicion{}, false
	}
	d := y - ref
	known := s.residuals
	if s.residuals = append(s.residuals, d); len(s.residuals) > memory {
		s.residuals = s.residuals[1:]
	}
	if len(known) < leastKnown {
		return Suspicion{}, false
	}
	scatter := max(stats.Scatter(known), leastNoise)
	z := (d - stats.Median(known)) / scatter
	s.worse.Add(z, i)
	s.better.Add(-z, i)
	sum, x := s.worse, d
	if s.better.C > s.worse.C {
		sum, x = s.better, -d
	}
	if sum.C < alarm || x < s.Margin/2 {
		return Suspicion{}, false
	}
	// A wrong reference is wrong in every run, and so is a drifting level: no number of runs
	// detects either.
	margin := max(s.Margin, ownScatter*scatter) + 2*stats.MedianError*scatter/math.Sqrt(float64(n))
	return Suspicion{Worse: sum == s.worse, C: sum.C, Reference: ref, Margin: margin, since: max(sum.since, s.from)}, true
}

// reference returns the expected number, and how many values it comes from: those of the same
// time of day and kind of day, or all since the last change.
func (s *Series) reference(at time.Time) (y float64, n int) {
	var all, same []float64
	for _, v := range s.values[s.from:] {
		if at.Sub(v.At) > window {
			continue
		}
		if all = append(all, v.y); season(v.At) == season(at) {
			same = append(same, v.y)
		}
	}
	switch {
	case len(same) >= ofSeason:
		return stats.Median(same), len(same)
	case len(all) >= fewest:
		return stats.Median(all), len(all)
	}
	return 0, 0
}

// season returns one of six parts of the day, of a working day or a weekend day.
func season(t time.Time) int {
	const hours, bands = 4, 6
	if day := t.Weekday(); day == time.Saturday || day == time.Sunday {
		return bands + t.Hour()/hours
	}
	return t.Hour() / hours
}

// Verdict is the outcome of the runs on a suspicion.
type Verdict int

// The verdicts of Judge.
const (
	Open Verdict = iota // too few runs
	Confirmed
	Refuted
)

// Judge returns what the runs that followed a suspicion show.
func (p Suspicion) Judge(runs []float64) Verdict {
	v, _ := p.judge(runs)
	return v
}

// judge also returns how far the number has changed, in the direction of the suspicion.
func (p Suspicion) judge(runs []float64) (Verdict, stats.Interval) {
	beyond, below := stats.NewEvidence(-p.Margin, 0.05), stats.NewEvidence(p.Margin)
	for i, y := range runs {
		d := y - p.Reference
		if p.Worse {
			d = -d
		}
		beyond.Add(d)
		below.Add(d)
		switch {
		case beyond.Max().NotAbove >= math.Log(E):
			in := beyond.Interval(0)
			return Confirmed, stats.Interval{Low: -in.High, High: -in.Low, Confidence: in.Confidence}
		case below.Max().NotBelow >= math.Log(giveUp), i+1 >= MostRuns:
			return Refuted, stats.Interval{}
		}
	}
	return Open, stats.Interval{}
}

// Change is a confirmed change.
type Change struct {
	Worse    bool
	Was, Now float64        // the number
	By       stats.Interval // size, in the direction of Worse
	Before   Look           // the last look without it
	Since    Look           // the first look with it
	Found    Look           // when it was confirmed
}

// Settle applies the result of the runs after the last look to its suspicion.
func (s *Series) Settle(p Suspicion, runs []float64) (Change, bool) {
	verdict, by := p.judge(runs)
	if verdict == Open {
		return Change{}, false // the runs were cut short: the next look raises the suspicion again
	}
	s.worse, s.better = Sum{}, Sum{}
	if verdict == Refuted {
		return Change{}, false
	}
	last := s.values[len(s.values)-1]
	c := Change{Worse: p.Worse, Was: p.Reference, Now: stats.Median(runs), By: by, Before: s.values[max(0, p.since-1)].Look, Since: s.values[p.since].Look, Found: last.Look}
	s.residuals = s.residuals[:max(0, len(s.residuals)-(len(s.values)-p.since))]
	n := len(s.before)
	if n > 0 && s.before[n-1].worse != c.Worse && math.Abs(c.Now-s.before[n-1].y) <= p.Margin {
		// It is as before: what happens every evening becomes part of its season.
		s.from, s.before = s.before[n-1].from, s.before[:n-1]
		s.values = append(s.values[:s.from], slices.DeleteFunc(s.values[s.from:], func(v value) bool { return v.more })...)
		return c, true
	}
	s.before = append(s.before, level{c.Worse, s.from, p.Reference})
	s.from = p.since
	for _, y := range runs {
		s.values = append(s.values, value{last.Look, y, true})
	}
	return c, true
}

// Usual returns the reference at now, and whether there is one.
func (s *Series) Usual(now time.Time) (float64, bool) {
	y, n := s.reference(now)
	return y, n > 0
}

// Looks returns all numbers in order, without those of confirmations.
func (s *Series) Looks() (looks []Look, y []float64) {
	for _, v := range s.values {
		if !v.more {
			looks, y = append(looks, v.Look), append(y, v.y)
		}
	}
	return looks, y
}
