package loaded

import (
	"sync"
	"time"

	"linerate/internal/core/hist"
)

// phase is the part of the run in which a probe is sent.
type phase int

const (
	idling  phase = iota // before the load
	aside                // while the load warms up
	loading              // under the load, in the measured window
	phases
)

// remembered is how many of the last probes can still be answered: 80 s of them at the fastest
// pace.
const remembered = 4096

// tracker records the probes of one kind. Some 100 events a second take its lock, which does
// not disturb what they measure.
type tracker struct {
	mu     sync.Mutex
	next   uint64 // number of the next probe
	phase  phase
	recent [remembered]pending
	series [phases]series
	now    hist.Recorder // answered in the current interval
}

// pending is a probe that has been sent.
type pending struct {
	at    time.Duration // since the start
	phase phase
	open  bool // not answered yet
}

// series is the result of the probes of a phase.
type series struct {
	times hist.Recorder
	sent  int64
}

// send records a probe that is sent at time at, and returns its number.
func (k *tracker) send(at time.Duration) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	seq := k.next
	k.next++
	k.recent[seq%remembered] = pending{at: at, phase: k.phase, open: true}
	k.series[k.phase].sent++
	return seq
}

// answer records the answer to probe seq at time at. It ignores numbers that were never sent,
// or have been answered or forgotten.
func (k *tracker) answer(seq uint64, at time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if seq >= k.next || k.next-seq > remembered {
		return
	}
	p := &k.recent[seq%remembered]
	if !p.open {
		return
	}
	p.open = false
	k.series[p.phase].times.Record(at - p.at)
	k.now.Record(at - p.at)
}

// enter makes later probes belong to p.
func (k *tracker) enter(p phase) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.phase = p
}

// turn ends the current interval and returns its times.
func (k *tracker) turn() *hist.Histogram {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.now.Histogram()
	k.now = hist.Recorder{}
	return h
}

// slowest returns the longest time of any probe.
func (k *tracker) slowest() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	var most time.Duration
	for i := range k.series {
		most = max(most, k.series[i].times.Max().Or(0))
	}
	return most
}

// waiting reports whether a probe that was sent after t is still unanswered.
func (k *tracker) waiting(t time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := uint64(1); n <= min(k.next, remembered); n++ {
		p := k.recent[(k.next-n)%remembered]
		if p.at < t {
			return false
		}
		if p.open {
			return true
		}
	}
	return false
}

// sent returns how many probes of p were sent.
func (k *tracker) sent(p phase) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.series[p].sent
}

// of returns a copy of the series of p.
func (k *tracker) of(p phase) series {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.series[p]
}
