package datagram

import (
	"runtime"
	"time"
)

// schedule says when datagrams are due: datagram slot i at offset + i × gap.
// That is computed afresh for each, so that no error adds up.
type schedule struct {
	gap    float64       // ns
	offset time.Duration // of slot 0
	slot   int64         // the next one to be used
	missed int64         // slots given up
}

// due is when slot i is.
func (s *schedule) due(i int64) time.Duration {
	return s.offset + time.Duration(float64(i)*s.gap)
}

// next is when the next slot is due.
func (s *schedule) next() time.Duration { return s.due(s.slot) }

// ready returns how many slots are due at time at, at most most.
func (s *schedule) ready(at time.Duration, most int) int {
	behind := float64(at - s.next())
	if behind < 0 {
		return 0
	}
	return int(min(behind/s.gap+1, float64(most)))
}

// catchUp is the most that a sender makes good after it was kept from sending.
// What lies further back is given up: a burst without bound would no longer be
// the traffic that was asked for.
const catchUp = 100 * time.Millisecond

// forgive gives up the slots that lie further back than catchUp.
func (s *schedule) forgive(at time.Duration) {
	if behind := at - catchUp - s.next(); behind > 0 {
		n := int64(float64(behind)/s.gap) + 1
		s.slot += n
		s.missed += n
	}
}

// Bounds of the part of a wait that is spun through because a sleep may end
// late. It follows what sleeps on this machine turn out to be.
const (
	leastSpin = 20 * time.Microsecond
	firstSpin = 100 * time.Microsecond
	mostSpin  = 250 * time.Microsecond
	// longestSleep bounds how long a stop goes unseen.
	longestSleep = 10 * time.Millisecond
	// yieldAfter is how long a goroutine keeps its thread. The Go runtime
	// interrupts after 10 ms whoever did not yield (sysmon, runtime/proc.go);
	// it is better done while there is time.
	yieldAfter = 5 * time.Millisecond
	yieldLate  = 9 * time.Millisecond
)

// clock waits until a time since its start: it sleeps first, and spins the rest.
type clock struct {
	start   time.Time
	margin  time.Duration // spun
	yielded time.Duration // when it let others run last
}

func newClock(start time.Time) *clock { return &clock{start: start, margin: firstSpin} }

func (c *clock) now() time.Duration { return time.Since(c.start) }

// until returns once it is time, or after longestSleep.
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
		// Late by as much as rarely happens: rises at once, falls slowly.
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
	// It may be another thread now.
	sharpen()
	c.yielded = c.now()
	return c.yielded
}
