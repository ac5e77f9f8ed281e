package datagram

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"linerate/internal/core/hist"
)

// Pacing selects what holds datagrams back until they are due.
type Pacing int

// The ways of pacing.
const (
	ByClock  Pacing = iota // the sending thread: it sleeps, then spins the rest
	ByKernel               // the queue of the interface, which gets each datagram ahead of its time
)

// SenderOptions configure a Sender.
type SenderOptions struct {
	// Start is the origin of all times.
	Start time.Time
	// Size is the payload of each datagram in bytes, 1 to MaxPayload.
	Size int
	// First is the number of the first datagram.
	First int64
	// Stamp writes the header of datagram seq, which leaves at time at, to the start of b. It
	// is called for each datagram, and again if the kernel did not accept it, so it must not
	// allocate or keep b.
	Stamp func(b []byte, seq int64, at time.Duration)
	// Before is called before each batch with the number of the next datagram. It returns false
	// to end the loop, or how long to send nothing. It is called again after 10 ms at the
	// latest.
	Before func(at time.Duration, next int64) (rest time.Duration, more bool)
	// Most returns how many more datagrams may be sent; nil is unlimited.
	Most func(next int64) int64
	// Gap is the time between two datagrams in ns; 0 is as fast as possible.
	Gap float64
	// Offset is when the first datagram of a paced sender is due.
	Offset time.Duration
	// Pacing selects how Gap is kept.
	Pacing Pacing
	// Gaps, if not nil, records the time between departures by the sender's clock, for a sender
	// with Pacing ByClock. Datagrams that left in one call count as 1 ns apart.
	Gaps *hist.Recorder
}

// Sender is a send loop. Its counters may be read while it runs.
type Sender struct {
	Sent    atomic.Int64 // datagrams that the kernel accepted
	Refused atomic.Int64 // times that it refused one: no room, no route
	Missed  atomic.Int64 // datagrams never sent because they were too late

	conn   *Conn
	o      SenderOptions
	buf    []byte
	tx     transmitter
	slots  int // datagrams per batch
	cut    bool
	usedGO bool // a train was sent
	how    string
	plan   schedule
	next   int64
	last   time.Duration // the previous departure
	times  []int64
	origin int64 // start by the kernel's clock
	stop   atomic.Bool
	health health
}

const (
	plainBatch = 64        // datagrams per call
	batchBytes = 256 << 10 // bytes per call: what stays in the cache
)

// LeastPlainGap is the gap in ns below which a paced sender may send trains: about what a
// single datagram costs the kernel. Trains hide when each of their datagrams arrived, so a
// receiver of slower flows should be Plain.
const LeastPlainGap = 4000.0

// NewSender prepares a loop that sends over c. The error wraps errors.ErrUnsupported if the
// kernel is to pace and cannot.
func NewSender(c *Conn, o SenderOptions) (*Sender, error) {
	if o.Size < 1 || o.Size > MaxPayload {
		return nil, fmt.Errorf("datagrams of %d bytes: not between 1 and %d", o.Size, MaxPayload)
	}
	s := &Sender{conn: c, o: o, next: o.First, how: "none", plan: schedule{gap: o.Gap, offset: o.Offset}}
	s.cut = !c.plain && c.socket.cuts(o.Size) && (o.Gap == 0 || o.Gap < LeastPlainGap)
	s.slots = max(1, min(plainBatch, batchBytes/o.Size))
	if s.cut {
		s.slots = min(plainBatch, trainLimit/o.Size)
	}
	if o.Gap > 0 {
		s.how = "clock"
	}
	if o.Gap > 0 && o.Pacing == ByKernel {
		how, err := c.socket.paceByKernel()
		if err != nil {
			return nil, fmt.Errorf("pace by kernel: %w", err)
		}
		s.how, s.cut = "kernel: "+how, false
		s.times = make([]int64, s.slots)
	}
	s.buf = payload(s.slots * o.Size)
	s.tx = c.socket.prepareSend(s.buf, o.Size)
	return s, nil
}

// trainLimit is the most bytes of a train: the largest packet minus its headers.
const trainLimit = 65535 - 48

// payload returns n pseudo-random bytes, which no link compresses.
func payload(n int) []byte {
	b := make([]byte, n)
	// Read of a ChaCha8 never fails.
	_, _ = rand.NewChaCha8([32]byte{'l', 'i', 'n', 'e', 'r', 'a', 't', 'e'}).Read(b)
	return b
}

// Start resets the origin of all times, before Run.
func (s *Sender) Start(t time.Time) { s.o.Start = t }

// Pacing returns how the sender paces: "none", "clock" or "kernel: fq".
func (s *Sender) Pacing() string { return s.how }

// Segmented reports whether trains were sent. Read it after Run.
func (s *Sender) Segmented() bool { return s.usedGO }

// Next returns the number of the next datagram to send. Read it after Run.
func (s *Sender) Next() int64 { return s.next }

// Stop makes Run return within some tens of milliseconds, or 0.1 s if the kernel has no room
// for a datagram.
func (s *Sender) Stop() { s.stop.Store(true) }

// Run sends until Before returns false, Stop is called, or sending has failed for too long:
// then the error wraps ErrNoListener or the kernel's reason. It keeps its thread busy.
func (s *Sender) Run() error {
	c := newClock(s.o.Start)
	c.yielded = c.now()
	s.health.taken = c.yielded
	s.origin = kernelClock() - int64(c.yielded)
	sharpen()
	defer blunt()
	for at := c.now(); !s.stop.Load(); at = c.now() {
		rest, more := s.o.Before(at, s.next)
		if !more {
			return nil
		}
		if rest > 0 {
			c.until(at + rest)
			continue
		}
		if at-c.yielded > yieldLate {
			at = c.yield()
		}
		n, due := s.batch(at)
		if n == 0 {
			c.until(due)
			continue
		}
		if err := s.send(c, at, n); err != nil {
			return err
		}
	}
	return nil
}

// batch returns how many datagrams leave now, or when the next ones do.
func (s *Sender) batch(at time.Duration) (n int, due time.Duration) {
	n = s.slots
	if s.o.Most != nil {
		n = int(min(int64(n), s.o.Most(s.next)))
	}
	if s.o.Gap == 0 {
		return n, at + longestSleep
	}
	s.plan.forgive(at)
	s.Missed.Store(s.plan.missed)
	if s.times != nil {
		return s.ahead(at, n)
	}
	return s.plan.ready(at, n), s.plan.next()
}

// With kernel pacing, datagrams are sent ahead of their time: enough to cover a sleep, and
// fewer than the 100 that queue fq accepts of one flow (flow_limit, net/sched/sch_fq.c).
const (
	lead      = 2 * time.Millisecond
	leadSlots = 50
)

// ahead is batch for kernel pacing.
func (s *Sender) ahead(at time.Duration, most int) (n int, due time.Duration) {
	lead := min(lead, time.Duration(leadSlots*s.plan.gap))
	n = s.plan.ready(at+lead, most)
	if n == 0 {
		return 0, s.plan.next() - lead/2
	}
	return n, 0
}

// send stamps and sends n datagrams.
func (s *Sender) send(c *clock, at time.Duration, n int) error {
	var (
		taken int
		o     outcome
		err   error
	)
	if s.times != nil {
		for i := range n {
			due := s.plan.due(s.plan.slot + int64(i))
			s.times[i] = s.origin + int64(due)
			s.o.Stamp(s.buf[i*s.o.Size:][:s.o.Size], s.next+int64(i), due)
		}
		taken, o, err = s.tx.sendAt(s.times[:n])
	} else {
		for i := range n {
			s.o.Stamp(s.buf[i*s.o.Size:][:s.o.Size], s.next+int64(i), at)
		}
		taken, o, err = s.tx.send(n, s.cut)
	}
	s.next += int64(taken)
	s.plan.slot += int64(taken)
	if taken > 0 {
		s.depart(at, taken)
		s.usedGO = s.usedGO || s.cut && taken > 1
	}
	return s.judge(c, at, o, err)
}

// depart counts the datagrams that have left.
func (s *Sender) depart(at time.Duration, n int) {
	sent := s.Sent.Load()
	s.Sent.Store(sent + int64(n))
	s.health.taken = at
	if s.o.Gaps == nil || s.o.Gap == 0 || s.times != nil {
		return
	}
	if sent > 0 {
		s.o.Gaps.Record(at - s.last)
	}
	if n > 1 {
		s.o.Gaps.Add(1, uint64(n-1))
	}
	s.last = at
}

// health records whether datagrams still leave.
type health struct {
	taken   time.Duration // when the kernel last accepted one
	closed  int           // reports of a closed port
	refused time.Duration // time of the first report
}

const (
	// A single report of a closed port may belong to another sender's datagram; this many over
	// this time do not. A host sends six at once, and then one a second (icmp_ratelimit and
	// XRLIM_BURST_FACTOR, net/ipv4/route.c).
	closedCount = 4
	closedTime  = 100 * time.Millisecond
	// giveUp is how long the kernel may accept nothing.
	giveUp = 5 * time.Second
	// pause lets a full queue drain a little.
	pause = 50 * time.Microsecond
)

// judge handles a datagram that the kernel did not accept.
func (s *Sender) judge(c *clock, at time.Duration, o outcome, err error) error {
	switch o {
	case fine, again:
		return nil
	case uncut:
		s.cut = false
		return nil
	case broken:
		return fmt.Errorf("send datagrams: %w", err)
	case portClosed:
		if s.health.closed == 0 {
			s.health.refused = at
		}
		s.health.closed++
		if s.health.closed >= closedCount && at-s.health.refused >= closedTime {
			return fmt.Errorf("send datagrams: %w", ErrNoListener)
		}
	case refused:
	}
	s.Refused.Add(1)
	if at-s.health.taken > giveUp {
		return fmt.Errorf("send datagrams: nothing was taken for %v: %w", giveUp, errors.Join(err))
	}
	if s.o.Gap > 0 {
		s.plan.slot++ // its time is over
		return nil
	}
	c.until(at + pause)
	return nil
}
