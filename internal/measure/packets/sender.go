package packets

import (
	"context"
	"encoding/binary"
	"io"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/core/probe"
	"linerate/internal/core/traffic/packets"
	"linerate/internal/panics"
)

const (
	// mostSizes is how many sizes a search tries besides the first and the smallest.
	mostSizes = 16
	// A try waits for several round trips, within these bounds (diagnosis.md 6.4: with a
	// control channel 3 round trips or 50 ms).
	leastWait, mostWait = 50 * time.Millisecond, 700 * time.Millisecond
	roundTrips          = 3
	// triesOfSize is RFC 8899's MAX_PROBES (section 5.1.2). A try whose small datagram was also
	// lost says nothing about sizes, and is repeated, up to triesAtAll tries.
	triesOfSize, triesAtAll = 3, 8
	// ect0 marks an ECN-capable packet (RFC 3168 section 5), and ce is the mark that a
	// congested queue sets.
	ect0, ce, markBits = 2, 3, 3
)

// answer is the receiver's report of a datagram.
type answer struct {
	number, bytes uint32
	marks         byte
}

// sender tries sizes.
type sender struct {
	*test
	answers chan answer
	number  uint32
	wait    time.Duration
	// asked counts the datagrams whose mark was reported, kept those whose mark arrived.
	asked, kept int
}

// try finds the largest packet that passes, and where larger ones are lost.
func (t *test) try(ctx context.Context) ([]model.Value, *model.Trace, error) {
	s := &sender{test: t, answers: make(chan answer, 64), wait: mostWait}
	var listen panics.Group
	listen.Go(s.listen)
	defer listen.Wait()
	defer func() { _ = t.line.CloseWrite(); _ = t.line.SetReadDeadline(time.Unix(1, 0)) }()
	passes, lost := s.search(ctx)
	if err := context.Cause(ctx); err != nil && ctx.Err() != nil {
		return nil, nil, err
	}
	var lostAt *model.Trace
	if passes > 0 && passes < t.most { // before closing the line, since that ends the receiver's run and then this one
		lostAt = t.trace(ctx)
	}
	value := func(m model.Metric, v float64) model.Value {
		return model.Value{Direction: t.direction, Metric: m, Value: v}
	}
	out := []model.Value{value(packets.Passes, float64(passes)), value(packets.Exact, 0)}
	if lost == passes+1 {
		out[1].Value = 1
	}
	if s.asked > 0 {
		out = append(out, value(packets.Marks, float64(s.kept)/float64(s.asked)))
	}
	return out, lostAt, nil
}

// listen reads answers until the line ends.
func (s *sender) listen() {
	defer close(s.answers)
	var b [answerLen]byte
	for {
		if _, err := io.ReadFull(s.line, b[:]); err != nil {
			return
		}
		a := answer{binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint32(b[4:]), b[8]}
		select {
		case s.answers <- a:
		default: // more answers than probes
		}
	}
}

// search returns the largest size that passes and the smallest that does not, 0 for none.
func (s *sender) search(ctx context.Context) (passes, lost int) {
	began := time.Now()
	found := false
	for range triesAtAll {
		began = time.Now()
		if found, _ = s.send(ctx, probe.Small, 0); found || ctx.Err() != nil {
			break
		}
	}
	if !found {
		return 0, 0
	}
	s.wait = min(max(roundTrips*time.Since(began), leastWait), mostWait)
	if s.passes(ctx, s.most) {
		return s.most, 0
	}
	passes, lost = probe.Small, s.most
	for n := 0; n < mostSizes && lost-passes > 1 && ctx.Err() == nil; n++ {
		size := mtu.Next(passes, lost, 0)
		if s.passes(ctx, size) {
			passes = size
		} else {
			lost = size
		}
	}
	return passes, lost
}

// passes reports whether packets of a size arrive.
func (s *sender) passes(ctx context.Context, size int) bool {
	for silent, n := 0, 0; silent < triesOfSize && n < triesAtAll && ctx.Err() == nil; n++ {
		arrived, together := s.send(ctx, size, probe.Small)
		if arrived {
			return true
		}
		if together {
			silent++
		}
	}
	return false
}

// send sends a packet of size bytes and, if beside is not 0, one of that size at the same time,
// and waits for the answers to both.
func (s *sender) send(ctx context.Context, size, beside int) (arrived, together bool) {
	first := s.write(size)
	second := uint32(0)
	if beside > 0 {
		second = s.write(beside)
	}
	late := time.NewTimer(s.wait)
	defer late.Stop()
	for {
		select {
		case <-ctx.Done():
			return arrived, together
		case <-late.C:
			return arrived, together
		case a, ok := <-s.answers:
			if !ok {
				s.answers = nil // no more answers: wait for the timeout
				continue
			}
			s.count(a)
			arrived = arrived || first != 0 && a.number == first && int(a.bytes) == size-s.overhead()
			together = together || second != 0 && a.number == second
			if arrived && (beside == 0 || together) || first == 0 && together {
				return arrived, together
			}
		}
	}
}

// count records what happened to a datagram's mark.
func (s *sender) count(a answer) {
	if a.marks == unmarked || !s.marked {
		return
	}
	s.asked++
	if a.marks&markBits == ect0 || a.marks&markBits == ce {
		s.kept++
	}
}

// write sends a packet of size bytes and returns its number; 0 if this host did not send it.
func (s *sender) write(size int) uint32 {
	s.number++
	b := make([]byte, size-s.overhead())
	copy(b, magic)
	copy(b[len(magic):], s.key[:])
	binary.BigEndian.PutUint32(b[headerLen-4:], s.number)
	_, err := s.socket.Write(b)
	if err != nil { // the error may belong to an earlier one; this one was not sent
		_, err = s.socket.Write(b)
	}
	if err != nil {
		return 0
	}
	return s.number
}
