package peer

import (
	"math"
	"sync/atomic"
	"time"

	"linerate/internal/measure/datagram"
	"linerate/internal/measure/iperf3"
)

// udpStream is one flow of datagrams at one end. Its thread writes the fields from tally on;
// others read the atomics meanwhile, and everything once it has ended.
type udpStream struct {
	conn *datagram.Conn
	wide bool // 64-bit sequence numbers

	// A sender.
	send *datagram.Sender

	// A receiver.
	receive *datagram.Receiver
	tally   *datagram.Tally
	theirs  iperf3.Tally  // the same with iperf3's arithmetic
	window  int64         // bytes in the measured window
	omitted iperf3.Tally  // theirs at the opening of the window
	missing int64         // of tally, at that time
	counted bool          // the window has opened
	open    time.Duration // start of the window
	shut    time.Duration // end of the window
	_       [128]byte

	total  atomic.Int64 // bytes at any time
	came   atomic.Int64 // datagrams
	lacks  atomic.Int64 // datagrams missing so far
	jitter atomic.Int64 // ns
	top    atomic.Int64 // highest sequence number
	_      [128]byte

	err error
}

// memory is how many datagrams behind the highest one a receiver remembers.
const memory = 1 << 18

// maxSequence bounds valid sequence numbers: at 10^9 datagrams a second they last for a
// century.
const maxSequence = 1 << 61

// handle counts one datagram. A datagram without room for a header belongs to the opening of a
// flow, and is ignored.
func (s *udpStream) handle(b []byte, at time.Duration, follows bool) {
	h, err := iperf3.ParseDatagramHeader(b, s.wide)
	if err != nil || len(b) < iperf3.MinDatagram || h.Sequence == 0 || h.Sequence > maxSequence {
		return
	}
	inside := at >= s.open && at < s.shut
	if inside && !s.counted {
		s.counted = true
		s.omitted, s.missing = s.theirs, s.tally.Missing()
	}
	sent := time.Duration(h.Seconds)*time.Second + time.Duration(h.Microseconds)*time.Microsecond
	fate := s.tally.Add(datagram.Arrival{Seq: int64(h.Sequence), Sent: sent, At: at, Counted: inside, Follows: follows})
	if at >= s.shut {
		return
	}
	s.theirs.Add(h, at.Seconds())
	// iperf3 counts everything that arrives, including copies; this end does the same where
	// both are compared. Copies are rare.
	if inside {
		s.window += int64(len(b))
	}
	if fate != datagram.Stale {
		s.total.Store(s.total.Load() + int64(len(b)))
	}
}

// publish stores the counters for other goroutines, after each batch.
func (s *udpStream) publish(time.Duration) bool {
	s.came.Store(int64(s.theirs.Received))
	s.lacks.Store(s.tally.Missing())
	s.top.Store(int64(min(s.theirs.Highest, math.MaxInt64)))
	if j, known := s.tally.Jitter().Get(); known {
		s.jitter.Store(int64(j))
	}
	return true
}

// lost returns how many datagrams of the window did not arrive, up to the highest number.
func (s *udpStream) lost() int64 {
	if !s.counted {
		return 0
	}
	return max(0, s.tally.Missing()-s.missing)
}
