package netpipe

import "slices"

// OpeningExchanges is the number of ping-pongs of Start bytes before the first
// point, in every mode. The elapsed time over twice that number is the first
// one-way time.
const OpeningExchanges = 100

// MaxRepeats is the largest repeat count that is sent or accepted. Real ends stay far below,
// because a trial takes about 0.10 s; NetPIPE 5.x has the same limit.
const MaxRepeats = 1_000_000_000

// leastSeconds replaces a measured time of zero, as in NPtcp: the resolution of its clock,
// gettimeofday.
const leastSeconds = 1e-6

// leastRepeats returns the smallest repeat count, for which NPtcp uses the number of trials; an
// integrity check has the same minimum in its one trial.
func (s Settings) leastRepeats() int {
	if s.Final {
		return 7
	}
	return 3
}

// trialSeconds returns the intended duration of a trial.
func (s Settings) trialSeconds() float64 {
	if s.Final {
		return 0.25
	}
	return 0.10
}

// Repeats returns how often a transmitter repeats point p in each trial, unless -n sets a
// constant. lastSeconds is the one-way time of the previous point, from which it estimates that
// of p ("Repeat count"). The result is between 3 (7 with Final) and MaxRepeats; a time that is
// not positive counts as 1 µs.
func (s Settings) Repeats(p Point, lastSeconds float64) int {
	if !(lastSeconds > 0) {
		lastSeconds = leastSeconds
	}
	growth := float64(p.Previous) / (float64(p.Previous) - float64(p.Increment) + 1)
	repeats := s.trialSeconds() / (growth * lastSeconds)
	return int(min(max(repeats, float64(s.leastRepeats())), MaxRepeats))
}

// OneWay returns the one-way time of a message in seconds, if repeats messages took
// elapsedSeconds. A ping-pong is two messages; in a stream each counts as one, and with -2 the
// two directions overlap. Repeats below 1 count as 1.
func (s Settings) OneWay(elapsedSeconds float64, repeats int) float64 {
	t := elapsedSeconds / float64(max(1, repeats))
	if s.Streaming || s.Bidirectional {
		return t
	}
	return t / 2
}

// Fastest returns the time that NetPIPE reports for a point: the shortest of its trials, or 1
// µs if that is 0 or there is none.
func Fastest(trials ...float64) float64 {
	if len(trials) == 0 {
		return leastSeconds
	}
	if t := slices.Min(trials); t != 0 {
		return t
	}
	return leastSeconds
}
