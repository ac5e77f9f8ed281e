package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// udpMost is the highest rate at which a server sends by default.
const udpMost units.BitRate = 1e9

// udpSender sends one flow at a rate, from a server's shared socket or to a client's listener.
// Package datagram sends faster, but only over connected sockets, and a client expects these
// datagrams from the server's own port.
type udpSender struct {
	stamp  stamper
	size   int
	rate   units.BitRate
	length time.Duration // after which it ends
	quota  int64         // datagrams after which it ends; 0 is no limit
	write  func(b []byte) error
	await  func(b []byte) bool     // waits finalEvery for a report; nil if none is expected
	charge func(units.Bytes) error // counts what was sent, and returns an error at the limit; nil is no limit
	sent   int64
	paid   int64         // datagrams that were charged
	last   time.Duration // when they were
	failed int           // consecutive failed writes
	closed int           // writes that failed because the port is closed
	err    error
}

const (
	// writeBurst is how many datagrams leave between two reads of the clock.
	writeBurst = 32
	// paceBehind is the most time that is made up for.
	paceBehind = 100 * time.Millisecond
	// mostFailed is after how many consecutive failures a sender gives up.
	mostFailed = 1000
)

// run sends until its end, and returns this end's report.
func (p *udpSender) run(ctx context.Context) model.FlowReport {
	start := time.Now()
	p.stamp.wall = start
	b := digits(p.size)
	first := firstNumber(p.stamp.layout)
	gap := gapOf(p.rate, p.size)
	due := 0.0 // ns since start
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil && p.err == nil {
		at := time.Since(start)
		if at >= p.length || p.quota > 0 && p.sent >= p.quota {
			break
		}
		if at-p.last >= chargeEvery {
			p.last = at
			p.pay()
		}
		due = max(due, float64(at-paceBehind))
		if wait := time.Duration(due) - at; wait > 0 {
			timer.Reset(min(wait, p.length-at))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			continue
		}
		for n := 0; n < writeBurst && due <= float64(at) && (p.quota == 0 || p.sent < p.quota); n++ {
			p.stamp.stamp(b, first+p.sent, at)
			p.send(b)
			due += gap
		}
	}
	window := time.Since(start)
	p.finish(ctx, b, first+p.sent)
	p.pay()
	n := units.Bytes(p.sent) * units.Bytes(p.size)
	return model.FlowReport{
		Direction: model.From, Role: model.Sender, Bytes: n, Window: window, Streams: []units.Bytes{n},
		UDP: &model.UDPSummary{Sent: p.sent, Pacing: "clock"},
	}
}

// pay charges what has not been charged yet.
func (p *udpSender) pay() {
	if p.charge == nil {
		return
	}
	n := units.Bytes(p.sent-p.paid) * units.Bytes(p.size)
	p.paid = p.sent
	if err := p.charge(n); err != nil && p.err == nil {
		p.err = err
	}
}

// send sends b and counts it.
func (p *udpSender) send(b []byte) {
	err := p.write(b)
	if err == nil {
		p.sent++
		p.failed = 0
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		p.closed++
	}
	if p.failed++; p.failed >= mostFailed || p.closed >= mostRefusals || errors.Is(err, net.ErrClosed) {
		p.err = fmt.Errorf("send datagrams: %w", err)
	}
}

// finish sends the final datagram, which counts as one more: once if no report is expected,
// otherwise until one arrives.
func (p *udpSender) finish(ctx context.Context, b []byte, next int64) {
	tries := int64(1)
	if p.await != nil {
		tries = finalTries
	}
	in := make([]byte, maxDatagram)
	for try := range tries {
		if ctx.Err() != nil || p.err != nil {
			return
		}
		p.stamp.stamp(b, -(next + try), time.Since(p.stamp.wall))
		before := p.sent
		if p.send(b); try > 0 {
			p.sent = before
		}
		if p.await != nil && p.await(in) {
			return
		}
	}
}
