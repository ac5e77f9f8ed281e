package peer

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/measure/udpstp"
)

// loader sends the load PDUs of one flow at the rate of the server's table.
type loader struct {
	write  func(b []byte) error
	shrink uint32 // bytes by which an IPv6 header exceeds an IPv4 header

	mu     sync.Mutex
	rate   udpstp.Rate
	action udpstp.Action
	echo   udpstp.Stamp // of the last status PDU received
	heard  time.Time    // when anything last arrived
	status uint32       // sequence of that PDU
	missed uint16       // status PDUs lost before it
	// credit is how many bytes may be sent to an unverified address: three times what has
	// arrived from it. A client sets proved at once.
	proved bool
	credit int

	sequence uint32
	sent     atomic.Int64 // datagrams
	bytes    atomic.Int64 // of payload
	refused  atomic.Int64 // writes that the kernel refused
}

const (
	// A flow starts to send after a random time, so that several do not send in step.
	firstSend, lastFirstSend = 5 * time.Millisecond, 50 * time.Millisecond
	// mostBehind is the most time to make up for when this process did not run.
	mostBehind = 10 * time.Millisecond
	// longestNap bounds how late a change of the rate takes effect.
	longestNap = 10 * time.Millisecond
	// mostAnswer is how many times the bytes received from an unverified address may be sent to
	// it (RFC 9000 section 8).
	mostAnswer = 3
)

// amount is what a loader sent.
type amount struct{ datagrams, bytes, refused int64 }

// total returns what was sent so far.
func (l *loader) total() amount {
	return amount{l.sent.Load(), l.bytes.Load(), l.refused.Load()}
}

// takes counts bytes received from the peer.
func (l *loader) takes(n int) { l.credit += mostAnswer * n }

// feedback handles a status PDU that arrived at time at, and the resulting rate.
func (l *loader) feedback(s udpstp.Status, rate udpstp.Rate, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard, l.proved, l.rate = at, true, rate
	switch {
	case s.Sequence <= l.status:
		l.missed = 0xffff // reordered
		return            // its time is older than the known one
	default:
		l.missed = uint16(min(s.Sequence-l.status-1, 0xfffe))
	}
	l.status, l.echo = s.Sequence, s.Sent
}

// stop makes outgoing PDUs announce the end of the test.
func (l *loader) stop() {
	l.mu.Lock()
	l.action = udpstp.Stopped
	l.mu.Unlock()
}

// step is what to send until the clock is next read.
type step struct {
	rate udpstp.Rate
	head udpstp.Load
	room int // bytes that may be sent; negative is no limit
}

// plan returns the next step.
func (l *loader) plan(now time.Time) step {
	l.mu.Lock()
	defer l.mu.Unlock()
	silent := now.Sub(l.heard)
	s := step{rate: l.rate, room: -1, head: udpstp.Load{
		Action: l.action, Stalled: silent >= udpstp.Stall, StatusErrors: l.missed, Status: l.echo,
	}}
	if l.echo != (udpstp.Stamp{}) {
		s.head.Delay = uint16(min(silent.Round(time.Millisecond).Milliseconds(), 0xffff))
	}
	switch {
	case !l.proved:
		s.rate, s.room = udpstp.Row(0, false, false), l.credit
	case s.head.Stalled: // the peer hears nothing, or has gone
		s.rate = udpstp.Row(0, false, false)
	}
	return s
}

// run sends until over is closed or, if last is true, until it has announced the end of the
// test.
func (l *loader) run(over <-chan struct{}, last bool) {
	begin := time.Now().Add(firstSend + rand.N(lastFirstSend-firstSend))
	one, two := begin, begin
	b := make([]byte, 1<<14) // larger than any row's datagrams
	for timer := time.NewTimer(time.Until(begin)); ; {
		select {
		case <-timer.C:
		case <-over:
			timer.Stop()
			return
		}
		now := time.Now()
		s := l.plan(now)
		stopping := s.head.Action != udpstp.Testing
		l.send(b, &s, due(&one, s.rate.Interval1, now), s.rate.Burst1, s.rate.Payload1, 0)
		l.send(b, &s, due(&two, s.rate.Interval2, now), s.rate.Burst2, s.rate.Payload2, s.rate.Addon2)
		if stopping && last && s.head.Sequence > 0 {
			return
		}
		nap := longestNap
		for _, next := range []time.Time{one, two} {
			if !next.IsZero() {
				nap = min(nap, time.Until(next))
			}
		}
		timer.Reset(max(nap, 0))
	}
}

// due returns how many intervals of that many microseconds are over since next, which it
// advances; 0 is never.
func due(next *time.Time, interval uint32, now time.Time) int {
	if interval == 0 {
		*next = time.Time{}
		return 0
	}
	if next.IsZero() {
		*next = now
	}
	each := time.Duration(interval) * time.Microsecond
	late := now.Sub(*next)
	if late < 0 {
		return 0
	}
	ticks := 1 + int(late/each)
	*next = next.Add(time.Duration(ticks) * each)
	return min(ticks, max(1, int(mostBehind/each)))
}

// send sends that many bursts, each with its add-on.
func (l *loader) send(b []byte, s *step, ticks int, burst, size, addon uint32) {
	if s.head.Action != udpstp.Testing { // one datagram announces the end
		burst, ticks = min(burst, 1), min(ticks, 1)
	}
	for range ticks {
		size, addon := l.sized(size, s.room), l.sized(addon, s.room)
		for range burst {
			if size > 0 && !l.one(b[:size], s) {
				return
			}
		}
		if addon > 0 && !l.one(b[:addon], s) {
			return
		}
	}
}

// sized returns the payload of a datagram of a size in the table.
func (l *loader) sized(size uint32, room int) uint32 {
	least := udpstp.MinLoad - l.shrink
	switch {
	case size == 0:
		return 0
	case room >= 0:
		return least
	case size&udpstp.RandomSize != 0:
		size = udpstp.MinLoad + rand.Uint32N(size&^udpstp.RandomSize-udpstp.MinLoad+1)
	}
	return size - l.shrink
}

// blocked is the duration of a write that waited for room.
const blocked = time.Millisecond

// one sends a datagram, and returns false if there was no room for it at once: load that is due
// while the host's own queue is full is skipped.
func (l *loader) one(b []byte, s *step) bool {
	if s.room >= 0 {
		if s.room < len(b) {
			return false
		}
		s.room -= len(b)
		l.mu.Lock()
		l.credit -= len(b)
		l.mu.Unlock()
	}
	now := time.Now()
	s.head.Sequence, s.head.Payload, s.head.Sent = l.sequence+1, uint16(len(b)), udpstp.StampOf(now)
	s.head.Put(b)
	if l.write(b) != nil {
		l.refused.Add(1) // the next one gets its number
		return false
	}
	l.sequence++
	l.sent.Add(1)
	l.bytes.Add(int64(len(b)))
	return time.Since(now) < blocked
}
