package plane

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"linerate/internal/panics"
)

// poller is the portable wire: the Go runtime waits.
type poller struct {
	conn        *net.TCPConn
	moved       atomic.Int64 // bytes sent and received
	got         int64        // bytes received
	interrupted atomic.Bool
	quiet       time.Duration
	until       time.Time // end of the total bound

	jobs chan []byte // to the writer of exchange, created on first use
	done chan error
}

func newPoller(c *net.TCPConn) *poller { return &poller{conn: c} }

func (*poller) waiting() string { return "poller" }

func (p *poller) received() int64 { return p.got }

// limit sets the deadline of the first progress check.
func (p *poller) limit(quiet, total time.Duration) {
	p.quiet, p.until = quiet, time.Now().Add(total)
	p.extend()
}

// extend allows one more time without progress.
func (p *poller) extend() {
	next := time.Now().Add(p.quiet)
	if next.After(p.until) {
		next = p.until
	}
	// It fails only on a closed connection, which the next call reports.
	_ = p.conn.SetDeadline(next)
	if p.interrupted.Load() { // it may have been called just before
		_ = p.conn.SetDeadline(time.Unix(1, 0))
	}
}

// late interprets a failed call; nil is to retry. before is what had moved when the call began.
func (p *poller) late(err error, before int64) error {
	switch {
	case p.interrupted.Load():
		return ErrInterrupted
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case p.moved.Load() == before || !time.Now().Before(p.until):
		return ErrStalled
	}
	p.extend()
	return nil
}

func (p *poller) send(b []byte) error {
	for len(b) > 0 {
		before := p.moved.Load()
		n, err := p.conn.Write(b)
		p.moved.Add(int64(n))
		b = b[n:]
		if err == nil {
			continue
		}
		if err := p.late(err, before); err != nil {
			return err
		}
	}
	return nil
}

func (p *poller) receive(b []byte) error {
	whole := len(b)
	for len(b) > 0 {
		before := p.moved.Load()
		n, err := p.conn.Read(b)
		p.moved.Add(int64(n))
		p.got += int64(n)
		b = b[n:]
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && !p.interrupted.Load():
			if len(b) == 0 {
				return nil
			}
			return ended(whole - len(b))
		default:
			if err := p.late(err, before); err != nil {
				return err
			}
		}
	}
	return nil
}

// ended returns the error for a connection that ended after got bytes of a message.
func ended(got int) error {
	if got > 0 {
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

func (p *poller) exchange(out, in []byte) error {
	if p.jobs == nil {
		p.jobs, p.done = make(chan []byte), make(chan error, 1)
		go panics.From(func(err error) {
			p.done <- err
			p.interrupt() // there will be no answer to what was not sent
		}, func() {
			for b := range p.jobs {
				p.done <- p.send(b)
			}
		})()
	}
	p.jobs <- out
	err := p.receive(in)
	if err != nil {
		// The writer must not outlive this call, and the connection is unusable.
		_ = p.conn.Close()
		if bug, ok := errors.AsType[*panics.Panic](<-p.done); ok {
			return bug
		}
		return err
	}
	return <-p.done
}

func (p *poller) interrupt() {
	p.interrupted.Store(true)
	_ = p.conn.SetDeadline(time.Unix(1, 0))
}

func (p *poller) linger(seconds int) {
	// It fails only on a connection that is closed already.
	_ = p.conn.SetLinger(seconds)
}

func (p *poller) close() error {
	if p.jobs != nil {
		close(p.jobs)
		p.jobs = nil
	}
	if err := p.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
