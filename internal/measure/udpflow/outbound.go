package udpflow

import (
	"errors"
	"sync/atomic"
	"time"

	"linerate/internal/core/hist"
	"linerate/internal/measure/datagram"
)

// phase is a sender's position in its stream.
type phase int

const (
	before phase = iota // the omitted time
	within              // the window
	after               // over: the sender sends its counts
)

const (
	// endEvery is the time between two ends. With a loss of 90 %, one of them arrives within
	// 0.4 s with a probability of 88 %.
	endEvery = 20 * time.Millisecond
	// lastEnds is how many a sender sends if it has no time to wait.
	lastEnds = 3
	// lookEvery is the time between two checks for reports, each of which reads at most
	// mostLook.
	lookEvery = 100 * time.Millisecond
	mostLook  = 64
)

// outbound is a stream at its sender. Only its own thread uses it while it runs, except for the
// sender's counters.
type outbound struct {
	conn   *datagram.Conn
	sender *datagram.Sender
	number uint16
	omit   time.Duration
	length time.Duration // of the window; 0 with a quota
	quota  int64         // datagrams to send; 0 is no limit
	bounds bounds
	gaps   *hist.Recorder // nil if not recorded

	phase     phase
	kind      kind // of datagrams sent now
	opened    time.Duration
	shut      time.Duration
	counts    counts
	refused   int64           // in the window; before it closes: up to its opening
	inWindow  *hist.Histogram // the gaps of the window
	endDue    time.Duration
	lookDue   time.Duration
	key       key // of the receiver's reports
	endings   int
	answered  bool
	end, back [endLen]byte

	heard  atomic.Int64 // time of the last report, ns since the start
	looked atomic.Int64 // time of the last check that found none left
	over   atomic.Bool  // the thread has ended; reason is set
	ended  atomic.Int64
	reason error
}

// stamp writes the header of a datagram.
func (s *outbound) stamp(b []byte, seq int64, at time.Duration) {
	header{kind: s.kind, stream: s.number, seq: seq, sent: at}.put(b)
}

// most returns how many more datagrams may be sent.
func (s *outbound) most(next int64) int64 { return s.quota - next }

// step is called before each batch: it moves from phase to phase, and finally sends the counts
// to the receiver.
func (s *outbound) step(at time.Duration, next int64) (rest time.Duration, more bool) {
	if s.phase == before && at >= s.omit {
		s.open(at, next)
	}
	if s.phase == within && (s.length > 0 && at >= s.opened+s.length || s.quota > 0 && next >= s.quota) {
		s.shutWindow(at, next, false)
	}
	if s.phase != after {
		if at >= s.lookDue {
			s.lookDue = at + lookEvery
			s.listen(at)
		}
		return 0, true
	}
	silent := s.quota > 0 || at >= s.shut+s.bounds.tail
	if at >= s.endDue || silent {
		s.listen(at)
	}
	if s.answered || at >= s.shut+s.bounds.grace {
		return 0, false
	}
	if at >= s.endDue {
		s.sendEnd(at, next)
		s.endDue = at + endEvery
	}
	if silent {
		return s.endDue - at, true
	}
	return 0, true
}

func (s *outbound) open(at time.Duration, next int64) {
	s.phase, s.kind, s.opened = within, inside, at
	s.counts.first = next
	s.refused = s.sender.Refused.Load()
	if s.gaps != nil {
		*s.gaps = hist.Recorder{}
	}
}

func (s *outbound) shutWindow(at time.Duration, next int64, early bool) {
	if s.phase == before {
		s.open(at, next)
	}
	s.phase, s.kind, s.shut, s.endDue = after, outside, at, at
	s.counts.behind, s.counts.early = next, early
	s.refused = s.sender.Refused.Load() - s.refused
	if s.gaps != nil {
		s.inWindow = s.gaps.Histogram()
	}
}

// sendEnd sends the counts to the receiver. It ignores errors: more ends follow.
func (s *outbound) sendEnd(at time.Duration, next int64) {
	header{kind: ending, stream: s.number, seq: next, sent: at}.put(s.end[:])
	s.counts.put(s.end[:])
	_ = s.conn.Write(s.end[:])
	s.endings++
}

// listen checks for the receiver's reports and its answer.
func (s *outbound) listen(at time.Duration) {
	for range mostLook {
		n, err := s.conn.Poll(s.back[:])
		if n == 0 || err != nil {
			s.looked.Store(int64(at))
			return
		}
		h, ok := parseHeader(s.back[:n])
		switch {
		case !ok || h.stream != s.number:
		case h.kind == ack && s.endings > 0:
			s.answered = true
		case h.kind == report && n == reportLen && s.key.fits(s.back[headerLen:n]):
			s.heard.Store(int64(at))
		}
	}
}

// run runs the stream's thread.
func (s *outbound) run(start time.Time) {
	s.sender.Start(start)
	err := s.sender.Run()
	at, next := time.Since(start), s.sender.Next()
	if s.phase == after && errors.Is(err, datagram.ErrNoListener) {
		err = nil // the receiver has what it needs
	}
	if s.phase != after {
		s.shutWindow(at, next, !s.nearly(at))
	}
	for range lastEnds {
		if !s.answered && err == nil {
			s.sendEnd(at, next)
		}
	}
	s.reason = err
	s.ended.Store(int64(at))
	s.over.Store(true)
}

// nearly reports whether the plan is almost complete at time at: a sender may be stopped a
// little early, because its start differs from the receiver's.
func (s *outbound) nearly(at time.Duration) bool {
	return s.length > 0 && s.phase == within && at-s.opened >= s.length*9/10
}
