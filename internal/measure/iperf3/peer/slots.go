package peer

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"linerate/internal/measure/accept"
	"linerate/internal/measure/iperf3"
)

// Limits of clients whose test has not begun. A silent client keeps no other out: any number up
// to these prepare at the same time, and if all places are taken a client of the largest source
// is dropped (accept.Crowd). Only a test whose streams are open takes a slot.
const (
	mostSilent   = 256 // connections that have not sent a cookie
	mostOpenings = 128 // tests whose data does not flow yet
	mostGathered = 512 // connections of their streams
	mostUnknown  = mostSilent + mostOpenings + mostGathered
)

// crowd has most places, reduced in proportion to a server's limit of unknown connections.
func crowd(most, unknown int) *accept.Crowd {
	if unknown > 0 && unknown < mostUnknown {
		most = most * unknown / mostUnknown
	}
	return accept.NewCrowd(most)
}

// A test without progress for silentFor is ended if another client wants its slot, and its
// source comes after others for struckFor. Samples show progress every progressEvery, so that
// it keeps the slot for at most 2 s. A client that connects while a test makes progress is
// refused at once, as by real busy servers; one that connects beside a test that may be silent
// waits.
const (
	silentFor     = 1500 * time.Millisecond
	progressEvery = 500 * time.Millisecond
	movesWithin   = 2 * progressEvery
	struckFor     = time.Minute
	mostStruck    = 1024
	// leastProgress is the bytes that count as progress, or less if the client stated a lower
	// rate: a client that only drips is silent.
	leastProgress = 2 << 10
)

// errCrowded ends a client that was dropped for another one.
var errCrowded = errors.New("made room for others: too many clients have not begun their test")

// slots are the places of running tests. They are guarded by server.mu.
type slots struct {
	running []*session
	waiting map[*session]bool
	struck  map[netip.Prefix]time.Time // time at which a source was silent
	changed chan struct{}              // closed, and replaced, when a waiting test may go on
}

func newSlots() slots {
	return slots{waiting: map[*session]bool{}, struck: map[netip.Prefix]time.Time{}, changed: make(chan struct{})}
}

// wake makes the waiting tests try again.
func (s *slots) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// busy reports whether all slots have tests that make progress.
func (s *server) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.slots.running) < s.Tests {
		return false
	}
	for _, t := range s.slots.running {
		if !t.moves() {
			return false
		}
	}
	return true
}

// seize takes a slot for t, whose streams are open. It returns ErrBusy if all slots have tests
// that make progress, and waits while one may turn out to be silent.
func (s *server) seize(ctx context.Context, t *session, next <-chan heard) error {
	s.mu.Lock()
	s.slots.waiting[t] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.slots.waiting, t)
		s.slots.wake() // the tests that wait behind it
	}()
	for {
		s.mu.Lock()
		got, wait, err := s.try(t)
		changed := s.slots.changed
		s.mu.Unlock()
		if got || err != nil {
			return err
		}
		again := time.NewTimer(wait)
		select {
		case <-changed:
		case <-again.C:
		case h := <-next:
			err = t.early(h)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		again.Stop()
		if err != nil {
			return err
		}
	}
}

// try takes a slot, or returns how long to wait before the next try, or ErrBusy.
func (s *server) try(t *session) (got bool, wait time.Duration, err error) {
	if len(s.slots.running) < s.Tests {
		if s.slots.behind(t) {
			return false, silentFor, nil
		}
		t.touch()
		s.slots.running = append(s.slots.running, t)
		return true, 0, nil
	}
	var v *session // the one silent for longest
	for _, r := range s.slots.running {
		if r.ending {
			return false, silentFor, nil // its slot will soon be free
		}
		if v == nil || r.quiet() > v.quiet() {
			v = r
		}
	}
	if v.moves() {
		return false, 0, ErrBusy
	}
	if left := silentFor - v.quiet(); left > 0 {
		return false, left, nil
	}
	v.ending = true
	s.slots.strike(v.source)
	v.drop(refuse(iperf3.CodeNoMessage, "nothing moved for %v, and another client waits", v.quiet().Round(100*time.Millisecond)))
	return false, silentFor, nil
}

// free gives back t's slot, if it has one.
func (t *session) free() {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.slots.leave(t)
}

// leave removes t from the running tests.
func (s *slots) leave(t *session) {
	for i := range s.running {
		if s.running[i] == t {
			s.running = append(s.running[:i:i], s.running[i+1:]...)
			s.wake()
			return
		}
	}
}

// strike records that a test of that source was silent.
func (s *slots) strike(from netip.Prefix) {
	if len(s.struck) >= mostStruck {
		for p, at := range s.struck {
			if time.Since(at) >= struckFor {
				delete(s.struck, p)
			}
		}
	}
	if len(s.struck) < mostStruck {
		s.struck[from] = time.Now()
	}
}

// behind reports whether t must wait behind others: its source was silent recently, and that of
// another waiting test was not.
func (s *slots) behind(t *session) bool {
	if !s.wasSilent(t.source) {
		return false
	}
	for other := range s.waiting {
		if !s.wasSilent(other.source) {
			return true
		}
	}
	return false
}

func (s *slots) wasSilent(from netip.Prefix) bool {
	at, known := s.struck[from]
	return known && time.Since(at) < struckFor
}

// touch records progress of t.
func (t *session) touch() { t.touched.Store(int64(time.Since(t.since))) }

// quiet returns the time since t's last progress.
func (t *session) quiet() time.Duration { return time.Since(t.since) - time.Duration(t.touched.Load()) }

// moves reports whether t, which has begun, makes progress. It is false for a test that has
// only just begun.
func (t *session) moves() bool { return t.moved.Load() && t.quiet() < movesWithin }

// progress records how many bytes have moved so far.
func (t *session) progress(bytes float64) {
	least := float64(leastProgress)
	if rate := float64(t.params.TotalBitsPerSecond()) / 8; rate > 0 {
		least = min(least, rate*progressEvery.Seconds())
	}
	if bytes-t.mark >= max(least, 1) {
		t.mark = bytes
		t.touch()
		t.moved.Store(true)
	}
}
