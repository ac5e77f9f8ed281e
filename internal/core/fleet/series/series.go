// Package series detects changes of a number that is measured repeatedly: a cumulative sum
// raises a suspicion, and runs that follow at once confirm it (fleet.md section 6). It compares
// a path with its own past, since there are no other hosts to compare it with.
package series

import (
	"cmp"
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
	wellKnown  = 24.                 // number of residuals from which a scatter needs no others beside it
	leastNoise = 0.01                // of a scatter
	mostScore  = 8                   // of one value, in scatters
	drift      = 1                   // by which the sum falls with each value
	alarm      = 4.                  // of the sum
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
	*Look         // all numbers of a look share it
	y     float32 // a hub has millions of them
	more  bool    // it is of a confirmation
}

// Series is a number of a path over successive looks, in order. Larger is worse. The zero value
// with a margin set is empty and ready to use.
type Series struct {
	Margin float64 // smaller changes do not count
	Alarm  float64 // of the cumulative sum; 0 is that of a watched path

	Detector
	values []value
	from   int     // the first value since the last change
	before []level // levels that changes left
	moves  []move
}

// move is a change of the number for another reason than the path, which is known: values before
// it count as if they had had it.
type move struct {
	at   time.Time
	host int64
	by   float64
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

// Compared is a number of a look with what was expected.
type Compared struct {
	Stream
	Number, Expected float64
	Of               int // values that Expected comes from; 0 is too few
}

// roomy returns a list with room for one more, and little more than that: a hub has a hundred
// thousand lists.
func roomy[T any](all []T) []T {
	if len(all) < cap(all) {
		return all
	}
	return append(make([]T, 0, len(all)+len(all)/8+4), all...)
}

// Detector raises a suspicion if a number leaves its level for good. The zero value is ready to use.
type Detector struct {
	residuals     []float64 // of the last values, against the reference at the time
	worse, better Sum
}

// Alarm is what a detector has seen.
type Alarm struct {
	Worse   bool
	C       float64
	Scatter float64 // of the residuals before; 0 while there are too few
	Since   int     // the value with which it began
}

// Detect adds the deviation of value i, and reports whether the level has moved: by half of a
// margin or more, with a sum of least.
func (c *Detector) Detect(d, margin, least float64, i int) (Alarm, bool) {
	known := c.residuals
	if c.residuals = append(roomy(c.residuals), d); len(c.residuals) > memory {
		c.residuals = c.residuals[1:]
	}
	if len(known) < leastKnown {
		return Alarm{}, false
	}
	a := Alarm{Worse: true, Scatter: max(stats.Scatter(known), leastNoise)}
	z := (d - stats.Median(known)) / a.Scatter
	c.worse.Add(z, i)
	c.better.Add(-z, i)
	a.C, a.Since = c.worse.C, c.worse.since
	if c.better.C > c.worse.C {
		a.Worse, a.C, a.Since, d = false, c.better.C, c.better.since, -d
	}
	return a, a.C >= least && d >= margin/2
}

// Usual returns the median of the last deviations.
func (c *Detector) Usual() float64 { return stats.Median(c.residuals) }

// Restart lets the detector begin anew with the level, and forgets the last n deviations.
func (c *Detector) Restart(n int) {
	c.worse, c.better = Sum{}, Sum{}
	c.residuals = c.residuals[:max(0, len(c.residuals)-max(0, n))] // a clock may have been set
}

// Suspicion is a change that runs have to confirm.
type Suspicion struct {
	Worse     bool
	C         float64
	Reference float64 // the number before
	Margin    float64 // least change to report
	since     Look
}

// Add adds the number of a look, and returns the suspicion that it raises.
func (s *Series) Add(l Look, y float64) (Suspicion, bool) {
	_, p, suspect := s.add(&l, y)
	return p, suspect
}

// add also returns what was expected, and from how many values.
func (s *Series) add(l *Look, y float64) (c Compared, p Suspicion, suspect bool) {
	c.Number = y
	c.Expected, c.Of = s.Reference(l.At)
	s.values = append(roomy(s.values), value{Look: l, y: float32(y)})
	if c.Of == 0 {
		return c, p, false
	}
	a, suspect := s.Detect(y-c.Expected, s.Margin, cmp.Or(s.Alarm, alarm), len(s.values)-1)
	if suspect {
		p = s.suspicion(a, c, 2)
	}
	return c, p, suspect
}

// suspicion returns an alarm with what has to be shown. A wrong reference is wrong in every run,
// and so is a drifting level: no number of runs detects either. errors is how many standard errors
// the reference may be wrong.
func (s *Series) suspicion(a Alarm, c Compared, errors float64) Suspicion {
	margin := max(s.Margin, ownScatter*a.Scatter) + errors*stats.MedianError*a.Scatter/math.Sqrt(float64(c.Of))
	return Suspicion{Worse: a.Worse, C: a.C, Reference: c.Expected, Margin: margin, since: *s.values[max(a.Since, s.from)].Look}
}

// Suspect returns the suspicion that an alarm raises about the number since a look. What was expected
// may be wrong by so many standard errors; usual is the scatter of others.
func (s *Series) Suspect(l Look, a Alarm, c Compared, errors, usual float64) Suspicion {
	a.Scatter = s.Noise(usual)
	a.Since = slices.IndexFunc(s.values, func(v value) bool { return *v.Look == l && !v.more })
	return s.suspicion(a, c, errors)
}

// Noise returns the scatter of the number; of a series with few values of its own it is part own, part usual.
func (s *Series) Noise(usual float64) float64 {
	own, n := leastNoise, float64(min(len(s.residuals), wellKnown))
	if n <= leastKnown {
		return max(own, usual)
	}
	own = max(own, stats.Scatter(s.residuals))
	return math.Sqrt((n*own*own + (wellKnown-n)*usual*usual) / wellKnown)
}

// Move has values before a time count as if they had changed by so much, because of a host.
func (s *Series) Move(at time.Time, host int64, by float64) {
	s.moves = append(s.moves, move{at, host, by})
	s.moved(at, by)
}

// Return undoes the move of a host at a time, because the number is as before it; since is when. What was
// between counts as if it had not moved.
func (s *Series) Return(at time.Time, host int64, since time.Time) {
	by := 0.0 // if it has no value from before
	for _, m := range s.moves {
		if m.host == host && m.at.Equal(at) {
			by -= m.by
		}
	}
	s.Move(since, host, by)
}

// moved moves the levels that changes left, and forgets what was made of values since a time.
func (s *Series) moved(since time.Time, by float64) {
	for i := range s.before {
		s.before[i].y += by
	}
	n := 0
	for _, v := range s.values {
		if !v.more && !v.At.Before(since) {
			n++
		}
	}
	s.Restart(n)
}

// number returns a value as it counts now.
func (s *Series) number(v value) float64 {
	y := float64(v.y)
	for _, m := range s.moves {
		if v.At.Before(m.at) {
			y += m.by
		}
	}
	return y
}

// Reference returns the expected number, and how many values it comes from: those of the same
// time of day and kind of day, or all since the last change.
func (s *Series) Reference(at time.Time) (y float64, n int) {
	var all, same []float64
	for _, v := range s.values[s.from:] {
		if at.Sub(v.At) > window {
			continue
		}
		y := s.number(v)
		if all = append(all, y); season(v.At) == season(at) {
			same = append(same, y)
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
	v, _ := p.Decide(runs, MostRuns, E)
	return v
}

// Decide also returns how far the number has changed, in the direction of the suspicion. It confirms with so
// much evidence, and refutes what so many runs do not confirm.
func (p Suspicion) Decide(runs []float64, most int, evidence float64) (Verdict, stats.Interval) {
	beyond, below := stats.NewEvidence(-p.Margin, 0.05), stats.NewEvidence(p.Margin)
	for i, y := range runs {
		d := y - p.Reference
		if p.Worse {
			d = -d
		}
		beyond.Add(d)
		below.Add(d)
		switch {
		case beyond.Max().NotAbove >= math.Log(evidence):
			in := beyond.Interval(0)
			return Confirmed, stats.Interval{Low: -in.High, High: -in.Low, Confidence: in.Confidence}
		case below.Max().NotBelow >= math.Log(giveUp), i+1 >= most:
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
	verdict, by := p.Decide(runs, MostRuns, E)
	if verdict == Open {
		return Change{}, false // the runs were cut short: the next look raises the suspicion again
	}
	since := slices.IndexFunc(s.values, func(v value) bool { return *v.Look == p.since && !v.more })
	if verdict == Refuted || since < s.from { // else another change has come between
		s.Restart(0)
		return Change{}, false
	}
	last := s.values[len(s.values)-1]
	c := Change{Worse: p.Worse, Was: p.Reference, Now: stats.Median(runs), By: by, Before: *s.values[max(0, since-1)].Look, Since: p.since, Found: *last.Look}
	s.Restart(len(s.values) - since)
	n := len(s.before)
	if n > 0 && s.before[n-1].worse != c.Worse && math.Abs(c.Now-s.before[n-1].y) <= p.Margin {
		// It is as before: what happens every evening becomes part of its season.
		s.from, s.before = s.before[n-1].from, s.before[:n-1]
		s.values = append(s.values[:s.from], slices.DeleteFunc(s.values[s.from:], func(v value) bool { return v.more })...)
		return c, true
	}
	s.before = append(s.before, level{c.Worse, s.from, p.Reference})
	s.from = since
	for _, y := range runs {
		s.values = append(s.values, value{last.Look, float32(y), true})
	}
	return c, true
}

// forget drops what is from before a time.
func (s *Series) forget(before time.Time) {
	s.moves = slices.DeleteFunc(s.moves, func(m move) bool { return m.at.Before(before) })
	n := slices.IndexFunc(s.values, func(v value) bool { return !v.At.Before(before) })
	if n <= 0 {
		return
	}
	s.values = slices.Clone(s.values[n:])
	s.from, s.worse.since, s.better.since = max(0, s.from-n), max(0, s.worse.since-n), max(0, s.better.since-n)
	for i := range s.before {
		s.before[i].from = max(0, s.before[i].from-n)
	}
}

// Last returns the last numbers, n at most, without those of confirmations.
func (s *Series) Last(n int) (y []float64) {
	for i := len(s.values) - 1; i >= 0 && len(y) < n; i-- {
		if v := &s.values[i]; !v.more {
			y = append(y, float64(v.y))
		}
	}
	return y
}

// Looks returns all numbers in order, without those of confirmations.
func (s *Series) Looks() (looks []Look, y []float64) {
	for _, v := range s.values {
		if !v.more {
			looks, y = append(looks, *v.Look), append(y, float64(v.y))
		}
	}
	return looks, y
}
