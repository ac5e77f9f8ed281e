package pingpong

import (
	"fmt"
	"time"

	"linerate/internal/measure/plane"
)

// looksPerBatch is how often the clock is read in a batch that goes well, so that a batch that
// became a thousand times slower ends too. The cost is negligible beside the messages between.
const looksPerBatch = 16

// peer speaks the protocol over one connection.
type peer struct {
	link    *plane.Link
	out, in []byte // payload sent, and buffer for received payload; as long as the largest size
	scratch [frameBytes]byte
}

// send sends f.
func (p *peer) send(f frame) error { return p.link.Send(f.append(p.scratch[:0])) }

// receive returns the next frame.
func (p *peer) receive() (frame, error) {
	if err := p.link.Receive(p.scratch[:]); err != nil {
		return frame{}, err
	}
	return decode(p.scratch[:])
}

// expect receives a frame that must equal want, except for the time of done.
func (p *peer) expect(want frame) (frame, error) {
	got, err := p.receive()
	if err != nil {
		return frame{}, err
	}
	want.elapsed = got.elapsed
	if got != want {
		return frame{}, fmt.Errorf("%w: %s where %s is due", errFrame, got.kind, want.kind)
	}
	return got, nil
}

// tell sends a frame of kind k without other fields, and waits for the same.
func (p *peer) tell(k kind) error {
	if err := p.send(frame{kind: k}); err != nil {
		return err
	}
	_, err := p.expect(frame{kind: k})
	return err
}

// limits are the leader's timeouts of a batch.
type limits struct {
	answer time.Duration // until the follower is ready
	quiet  time.Duration // without progress from then on
	total  time.Duration // total
}

// lead runs a batch as the leader. It returns the one-way time of a message, and the total time
// of the batch.
func (p *peer) lead(b frame, l limits) (oneWay, all time.Duration, err error) {
	p.link.Limit(l.answer, l.answer)
	if err := p.send(b); err != nil {
		return 0, 0, err
	}
	answer := b
	answer.kind = ready
	if _, err := p.expect(answer); err != nil {
		return 0, 0, err
	}
	p.link.Limit(l.quiet, l.total)
	start := time.Now()
	until, rest := start.Add(l.total), b
	if b.mode == both {
		// The follower's first message is in flight before this end begins: the time counts
		// from the end of the first round.
		if err := p.some(b, 1, true); err != nil {
			return 0, 0, err
		}
		start = time.Now()
		rest.rounds--
	}
	if err := p.rounds(rest, until, true); err != nil {
		return 0, 0, err
	}
	all = time.Since(start)
	messages := b.rounds
	switch b.mode {
	case turns:
		messages *= 2
	case both:
		messages--
	case stream:
		answer.kind = done
		answer, err := p.expect(answer)
		if err != nil {
			return 0, 0, err
		}
		most := time.Since(start)
		all = time.Duration(answer.elapsed)
		if all > most {
			return 0, 0, fmt.Errorf("%w: a time of %v where no more than %v have passed", errFrame, all, most)
		}
		messages--
	}
	return max(1, all/time.Duration(messages)), all, nil
}

// follow answers a batch of the leader.
func (p *peer) follow(b frame, quiet, total time.Duration) error {
	p.link.Limit(quiet, total)
	b.kind = ready
	if err := p.send(b); err != nil {
		return err
	}
	until := time.Now().Add(total)
	if b.mode != stream {
		return p.rounds(b, until, false)
	}
	if err := p.link.Receive(p.in[:b.size]); err != nil {
		return err
	}
	start := time.Now()
	rest := b
	rest.rounds--
	if err := p.rounds(rest, until, false); err != nil {
		return err
	}
	b.kind, b.elapsed = done, max(1, int64(time.Since(start)))
	return p.send(b)
}

// rounds sends and receives the messages of b.
func (p *peer) rounds(b frame, until time.Time, leads bool) error {
	step := max(1, b.rounds/looksPerBatch)
	for left := b.rounds; left > 0; left -= step {
		if err := p.some(b, min(step, left), leads); err != nil {
			return err
		}
		if left > step && !time.Now().Before(until) {
			return plane.ErrStalled
		}
	}
	return nil
}

// some sends and receives the messages of n rounds. This is the measuring loop: it does nothing
// else.
func (p *peer) some(b frame, n int, leads bool) error {
	out, in := p.out[:b.size], p.in[:b.size]
	if b.mode == turns {
		in = out // return the received bytes from where they are, as NetPIPE does: caches hold them once
	}
	switch {
	case b.mode == both:
		for range n {
			if err := p.link.Exchange(out, in); err != nil {
				return err
			}
		}
	case b.mode == stream && leads:
		for range n {
			if err := p.link.Send(out); err != nil {
				return err
			}
		}
	case b.mode == stream:
		for range n {
			if err := p.link.Receive(in); err != nil {
				return err
			}
		}
	case leads:
		for range n {
			if err := p.link.Send(out); err != nil {
				return err
			}
			if err := p.link.Receive(in); err != nil {
				return err
			}
		}
	default:
		for range n {
			if err := p.link.Receive(in); err != nil {
				return err
			}
			if err := p.link.Send(out); err != nil {
				return err
			}
		}
	}
	return nil
}
