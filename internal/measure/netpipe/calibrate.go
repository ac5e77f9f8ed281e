package netpipe

import "slices"

// OpeningExchanges is the number of ping-pongs of Start bytes before the first
// point, in every mode. The elapsed time over twice that number is the first
// one-way time.
const OpeningExchanges = 100

// MaxRepeats is the largest repeat count that is sent or believed. Real ends
// stay far below, because a trial is meant to last 0.10 s; NetPIPE 5.x has the
// same limit.
const MaxRepeats = 1_000_000_000

// leastSeconds stands in NPtcp for a measured time of zero: the resolution of
// its clock, gettimeofday.
const leastSeconds = 1e-6

// leastRepeats is the number of trials, which NPtcp also takes as the least
// repeat count; an integrity check has the same least count in its one trial.
func (s Settings) leastRepeats() int {
	if s.Final {
		return 7
	}
	return 3
}

// trialSeconds is the time that one trial should last.
func (s Settings) trialSeconds() float64 {
	if s.Final {
		return 0.25
	}
	return 0.10
}

// Repeats returns how often a transmitter repeats point p in each trial, unless
// -n gives it a constant. lastSeconds is the one-way time of the point before,
// scaled here to the expected one of p ("Repeat count"). The result is between
// 3 (7 with Final) and MaxRepeats; a time that is not positive counts as 1 µs.
func (s Settings) Repeats(p Point, lastSeconds float64) int {
	if !(lastSeconds > 0) {
		lastSeconds = leastSeconds
	}
	growth := float64(p.Previous) / (float64(p.Previous) - float64(p.Increment) + 1)
	repeats := s.trialSeconds() / (growth * lastSeconds)
	return int(min(max(repeats, float64(s.leastRepeats())), MaxRepeats))
}

// OneWay returns the one-way time of a message in seconds, after repeats
// messages took elapsedSeconds. A ping-pong is two of them; a stream is not, and
// with -2 the two directions overlap. Repeats below 1 count as 1.
func (s Settings) OneWay(elapsedSeconds float64, repeats int) float64 {
	t := elapsedSeconds / float64(max(1, repeats))
	if s.Streaming || s.Bidirectional {
		return t
	}
	return t / 2
}

// Fastest returns the time that NetPIPE reports for a point: the least of its
// trials, and 1 µs where that is 0 or there is none.
func Fastest(trials ...float64) float64 {
	if len(trials) == 0 {
		return leastSeconds
	}
	if t := slices.Min(trials); t != 0 {
		return t
	}
	return leastSeconds
}
