package datagram

import (
	"runtime"
	"time"
)

// schedule returns when datagrams are due: slot i at offset + i × gap. It computes each time
// from i, so that errors do not add up.
type schedule struct {
	gap    float64       // ns
	offset time.Duration // of slot 0
	slot   int64         // the next one to use
	missed int64         // slots given up
}

// due returns when slot i is due.
func (s *schedule) due(i int64) time.Duration {
	return s.offset + time.Duration(float64(i)*s.gap)
}

// next returns when the next slot is due.
func (s *schedule) next() time.Duration { return s.due(s.slot) }

// ready returns how many slots are due at time at, no more than most.
func (s *schedule) ready(at time.Duration, most int) int {
	behind := float64(at - s.next())
	if behind < 0 {
		return 0
	}
	return int(min(behind/s.gap+1, float64(most)))
}

// catchUp is how far a delayed sender catches up. It drops older slots: an unbounded burst
// would not be the requested traffic.
const catchUp = 100 * time.Millisecond

// forgive drops the slots that are more than catchUp late.
func (s *schedule) forgive(at time.Duration) {
	if behind := at - catchUp - s.next(); behind > 0 {
		n := int64(float64(behind)/s.gap) + 1
		s.slot += n
		s.missed += n
	}
}

// Bounds of the part of a wait that is spun because a sleep may end late. The part follows the
// lateness of the sleeps on this machine.
const (
	leastSpin = 20 * time.Microsecond
	firstSpin = 100 * time.Microsecond
	mostSpin  = 250 * time.Microsecond
	// longestSleep bounds how long a stop goes unnoticed.
	longestSleep = 10 * time.Millisecond
	// yieldAfter is how long a goroutine keeps its thread. The Go runtime preempts a goroutine
	// that has not yielded for 10 ms (sysmon, runtime/proc.go); it is better to yield when
	// there is time.
	yieldAfter = 5 * time.Millisecond
	yieldLate  = 9 * time.Millisecond
)

// clock waits until a time since its start: it sleeps, then spins the rest.
type clock struct {
	start   time.Time
	margin  time.Duration // part of the wait that is spun
	yielded time.Duration // when it last let others run
}

func newClock(start time.Time) *clock { return &clock{start: start, margin: firstSpin} }

func (c *clock) now() time.Duration { return time.Since(c.start) }

// until returns at due, or after longestSleep.
func (c *clock) until(due time.Duration) {
	at := c.now()
	if at >= due {
		return
	}
	if room := due - at; at-c.yielded > yieldAfter && (room > c.margin || at-c.yielded > yieldLate) {
		at = c.yield()
	}
	if nap := due - at - c.margin; nap > c.margin/4 {
		nap = min(nap, longestSleep)
		sleep(nap)
		woke := c.now()
		// Lateness that is rarely exceeded: rises at once, falls slowly.
		late := (woke - at - nap) * 3 / 2
		c.margin = min(max(late, c.margin-c.margin/64, leastSpin), mostSpin)
		if nap == longestSleep {
			return
		}
	}
	for c.now() < due {
	}
}

// yield lets other goroutines run.
func (c *clock) yield() time.Duration {
	runtime.Gosched()
	// The goroutine may run on another thread now.
	sharpen()
	c.yielded = c.now()
	return c.yielded
}
