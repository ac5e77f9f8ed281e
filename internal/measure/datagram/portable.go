package datagram

import (
	"errors"
	"net"
	"os"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/measure/sockio"
)

// patience is the longest that a receiver or a sender waits in the kernel, and so the longest
// that a stop goes unnoticed.
const patience = 100 * time.Millisecond

// portable is a socket that uses package net.
type portable struct {
	c       *net.UDPConn
	granted fact.Of[units.Bytes]
}

// newPortable takes over c.
func newPortable(c *net.UDPConn, o Options) (*portable, error) {
	p := &portable{c: c}
	if err := sockio.HearRefusals(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	// The BSDs refuse a size above their bound instead of granting the bound.
	want := int(o.RecvBuffer)
	err := c.SetReadBuffer(want)
	for err != nil && want > leastBuffer {
		want /= 2
		err = c.SetReadBuffer(want)
	}
	p.granted = readRecvBuffer(c)
	if o.SendBuffer != 0 {
		if err := c.SetWriteBuffer(int(o.SendBuffer)); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return p, nil
}

// leastBuffer is the smallest buffer to retry with.
const leastBuffer = 64 << 10

func (*portable) threads() int      { return 0 }
func (*portable) waiting() string   { return "poller" }
func (*portable) cuts(int) bool     { return false }
func (p *portable) interrupt()      { _ = p.c.SetReadDeadline(time.Unix(1, 0)) }
func (p *portable) close() error    { return closed(p.c.Close()) }
func (p *portable) waitNone() error { return p.c.SetReadDeadline(time.Now().Add(pollPatience)) }

func (p *portable) recvBuffer() fact.Of[units.Bytes] { return p.granted }

// closed returns err, or nil if err reports that the socket is closed already.
func closed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (*portable) pathMTU() fact.Of[int] { return fact.Unknown[int]("package net does not report it") }
func (*portable) dropped() fact.Of[int64] {
	return fact.Unknown[int64]("package net does not report it")
}

func (*portable) paceByKernel() (string, error) {
	return "", errors.Join(errors.ErrUnsupported, errors.New("package net cannot say when a datagram shall leave"))
}

func (p *portable) write(b []byte) error {
	_, err := p.c.Write(b)
	return err
}

// pollPatience is how long poll waits: with a deadline in the past package net would not try to
// read.
const pollPatience = 100 * time.Microsecond

func (p *portable) poll(b []byte) (int, error) {
	if err := p.waitNone(); err != nil {
		return 0, err
	}
	n, err := p.c.Read(b)
	switch outcomeOf(err) {
	case fine:
		return n, nil
	case broken:
		return 0, err
	default: // nothing arrived, or an error of an earlier datagram
		return 0, nil
	}
}

// outcomeOf maps the errors of package net to an outcome.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return fine
	case errors.Is(err, os.ErrDeadlineExceeded):
		return again
	case sockio.Refused(err):
		return portClosed
	case errors.Is(err, net.ErrClosed):
		return broken
	}
	return refused
}

// portableSend sends one datagram per call.
type portableSend struct {
	c    *net.UDPConn
	buf  []byte
	size int
}

func (p *portable) prepareSend(buf []byte, size int) transmitter {
	return &portableSend{c: p.c, buf: buf, size: size}
}

func (t *portableSend) send(n int, _ bool) (int, outcome, error) {
	for i := range n {
		if _, err := t.c.Write(t.buf[i*t.size:][:t.size]); err != nil {
			return i, outcomeOf(err), err
		}
	}
	return n, fine, nil
}

func (t *portableSend) sendAt([]int64) (int, outcome, error) {
	return 0, broken, errors.ErrUnsupported
}

// portableReceive receives one datagram per call.
type portableReceive struct {
	c   *net.UDPConn
	buf []byte
	n   int
}

func (p *portable) prepareReceive(size int, _ bool) collector {
	// One more byte reveals datagrams longer than agreed.
	return &portableReceive{c: p.c, buf: make([]byte, size+1)}
}

func (r *portableReceive) receive(wait bool) (int, outcome, error) {
	limit := pollPatience
	if wait {
		limit = patience
	}
	if err := r.c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return 0, broken, err
	}
	n, err := r.c.Read(r.buf)
	if err != nil {
		return 0, outcomeOf(err), err
	}
	r.n = n
	return 1, fine, nil
}

func (r *portableReceive) piece(int) (b []byte, each int, wall int64) { return r.buf[:r.n], 0, 0 }
