package udpflow

import (
	"sync/atomic"
	"time"

	"linerate/internal/measure/datagram"
)

// inbound is a stream at its receiver. Its thread writes the fields after conn; others read the
// atomics meanwhile, and everything once it has ended.
type inbound struct {
	conn     *datagram.Conn
	receiver *datagram.Receiver
	tally    *datagram.Tally
	number   uint16
	closed   *atomic.Bool // the receiver's own window is over: it answers ends

	payload int64         // bytes of different datagrams since the start
	window  int64         // of these, of datagrams sent in the window
	first   time.Duration // arrival of the first datagram of the window
	last    time.Duration // arrival of the last one
	lowest  int64         // of the window's datagrams; -1 if none
	highest int64
	base    time.Duration // of unwrapped send times
	counts  counts
	foreign int64 // datagrams of other streams or programs
	ackDue  int64 // number of the end to answer; -1 if none
	answer  [headerLen]byte
	key     key           // of reports
	due     time.Duration // time of the next one
	report  [reportLen]byte
	changed bool
	at      time.Duration // of the previous batch
	_       [128]byte

	// Read by the sampler.
	bytes    atomic.Int64 // payload
	count    atomic.Int64 // different datagrams
	missing  atomic.Int64 // so far
	jitter   atomic.Int64 // ns; -1 is unknown
	heard    atomic.Int64 // time of the last read, ns since the start
	looked   atomic.Int64 // everything that had arrived by then is counted
	endAt    atomic.Int64 // arrival of the first end; 0 before
	early    atomic.Bool  // the sender ended before its plan
	complete atomic.Bool  // nothing of the window is missing
	over     atomic.Bool  // the thread has ended; reason is set
	_        [128]byte

	reason error
}

// memory is how many datagrams behind the highest one a stream remembers: at 300,000 a second
// those of 3 s.
const memory = 1 << 20

func newInbound(c *datagram.Conn, number int, streams int, closed *atomic.Bool) *inbound {
	s := &inbound{
		conn: c, number: uint16(number), closed: closed, lowest: -1, ackDue: -1,
		// Many streams share the rate, and the memory.
		tally: datagram.NewTally(0, max(memory/streams, 1<<16)),
	}
	s.jitter.Store(-1)
	return s
}

// handle counts one datagram.
func (s *inbound) handle(b []byte, at time.Duration, follows bool) {
	h, ok := parseHeader(b)
	if !ok || h.stream != s.number || h.kind == ack || h.kind == report {
		s.foreign++
		return
	}
	s.changed = true
	if h.kind == ending {
		s.end(h, b, at)
		return
	}
	counted := h.kind == inside
	fate := s.tally.Add(datagram.Arrival{
		Seq: h.seq, Sent: s.unwrap(h.sent), At: at, Counted: counted, Follows: follows,
	})
	if fate != datagram.First {
		return
	}
	// Datagrams that waited in the socket before the start are not counted.
	if at >= 0 {
		s.payload += int64(len(b))
	}
	if !counted {
		return
	}
	s.window += int64(len(b))
	if s.lowest < 0 {
		s.lowest, s.first = h.seq, at
	}
	s.lowest, s.highest, s.last = min(s.lowest, h.seq), max(s.highest, h.seq), max(s.last, at)
}

// unwrap returns the send time whose lower 48 bits are sent, near the previous one.
func (s *inbound) unwrap(sent time.Duration) time.Duration {
	const half = 1 << (sequenceBits - 1)
	step := (sent - s.base) & maxSequence
	if step >= half {
		step -= 2 * half
	}
	s.base += step
	return s.base
}

// end handles the sender's counts.
func (s *inbound) end(h header, b []byte, at time.Duration) {
	c, err := parseEnd(h, b)
	if err != nil {
		s.foreign++
		return
	}
	s.ackDue = h.seq
	if s.endAt.Load() == 0 {
		s.counts = c
		s.early.Store(c.early)
		s.endAt.Store(max(1, int64(at)))
	}
}

// publish is called after each batch: it publishes the counters to the sampler, and answers
// ends.
func (s *inbound) publish(at time.Duration) bool {
	s.looked.Store(int64(s.at))
	s.at = at
	if s.changed {
		s.changed = false
		s.bytes.Store(s.payload)
		s.count.Store(s.tally.Total)
		s.missing.Store(s.tally.Missing())
		if j, known := s.tally.Jitter().Get(); known {
			s.jitter.Store(int64(j))
		}
		s.heard.Store(int64(at))
		if s.endAt.Load() != 0 && s.tally.Received >= s.counts.behind-s.counts.first {
			s.complete.Store(true)
		}
	}
	if s.ackDue >= 0 && s.closed.Load() {
		header{kind: ack, stream: s.number, seq: s.ackDue, sent: max(0, at)}.put(s.answer[:])
		// If this fails the sender asks again.
		_ = s.conn.Write(s.answer[:])
		s.ackDue = -1
	}
	if at >= s.due {
		s.due = at + reportEvery
		header{kind: report, stream: s.number, seq: s.tally.Total & maxSequence, sent: max(0, at)}.put(s.report[:])
		copy(s.report[headerLen:], s.key[:])
		_ = s.conn.Write(s.report[:]) // the line carries them too
	}
	return true
}

// run runs the stream's thread.
func (s *inbound) run(start time.Time) {
	s.receiver.Start(start)
	s.reason = s.receiver.Run()
	s.changed = true
	s.publish(time.Since(start))
	s.over.Store(true)
}

// lost returns how many datagrams of the window never arrived, and whether that is by the
// sender's own count. Otherwise it is the number missing between the first and the last one
// that arrived: a lower bound.
func (s *inbound) lost() (n int64, counted bool) {
	if s.endAt.Load() != 0 {
		// Negative only if the peer is wrong.
		return max(0, s.counts.behind-s.counts.first-s.tally.Received), true
	}
	if s.lowest < 0 {
		return 0, false
	}
	return max(0, s.highest-s.lowest+1-s.tally.Received), false
}

// quietFor returns the time without a datagram, up to the thread's last check.
func (s *inbound) quietFor() time.Duration { return time.Duration(s.looked.Load() - s.heard.Load()) }
