package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/run"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpbulk"
	"linerate/internal/measure/tcpinfo"
	"linerate/internal/panics"
)

const (
	fullBlock = 128 << 10            // default bytes per call, as in iperf 2
	paceStep  = 5 * time.Millisecond // most that one call moves, at a rate
	leastStep = 1448                 // bytes: less than a segment per call gains nothing
)

// pacer is a half whose payload package peer moves itself.
type pacer struct {
	half
	start  time.Time
	end    time.Time // of a sender with a duration; else zero
	counts []atomic.Int64
	first  atomic.Int64 // when the first byte moved, since start; 0 before
	last   atomic.Int64
	errs   []error
	part   *run.Part
}

// pace moves the payload at h.rate, or on shared connections.
func (h half) pace(ctx context.Context, _ *tcpbulk.Engine, host model.Host, emit func([]model.Sample)) (model.EndReport, error) {
	p := &pacer{half: h, start: time.Now(), counts: make([]atomic.Int64, len(h.conns)), errs: make([]error, len(h.conns))}
	if h.role == model.Sender && h.flow.Duration > 0 {
		// The peer's time began then, and it may reset what arrives later.
		p.end = earlier(p.start, h.since).Add(h.flow.Omit + h.flow.Duration)
	}
	p.aheadOfPath()
	p.part = part(h.direction, h.role, h.flow, len(h.conns), func(r *run.Reading) {
		for i := range p.counts {
			r.Set(i, p.acknowledged(i))
		}
	})
	ended := make(chan func(), 1)
	r := &run.Run{Meter: run.Meter{Host: host, Spec: p.part.Spec, Emit: emit}, Life: engine.NewLife(), Parts: []*run.Part{p.part}, Ended: ended}
	r.Launch()
	p.start = r.Start
	var running sync.WaitGroup
	for i, c := range h.conns {
		running.Go(func() { p.errs[i] = panics.Call(func() error { return p.move(ctx, c, i) }) })
	}
	go func() {
		running.Wait()
		ended <- func() { p.part.Finish("ended") }
	}()
	stop := context.AfterFunc(ctx, func() {
		for _, c := range h.conns {
			_ = c.SetDeadline(time.Unix(1, 0)) // fails only on a closed connection
		}
	})
	defer stop()
	r.Loop(context.WithoutCancel(ctx)) // a stop ends the connections first
	p.awaitAcknowledged(ctx)
	p.part.Close()
	r.Shut()
	report := r.Meter.Report("poller")
	report.Flows = []model.FlowReport{p.flowReport()}
	if !h.shared {
		settle(ctx, h.conns, settleTime)
	}
	return p.failure(report)
}

// move moves one connection's part, and closes it.
func (p *pacer) move(ctx context.Context, c *net.TCPConn, i int) error {
	buf, rate := p.buffer()
	op := c.Write
	quota := int64(untilEnd)
	if p.role == model.Receiver {
		op = c.Read
	} else if p.flow.Bytes > 0 {
		quota = share(p.flow.Bytes, len(p.conns), i)
	}
	var (
		moved int64
		due   = p.start
		timer = time.NewTimer(0)
	)
	defer timer.Stop()
	for moved < quota && p.more(ctx) {
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			continue
		}
		if err := p.arm(c); err != nil {
			return err
		}
		n, err := op(buf[:min(int64(len(buf)), quota-moved)])
		p.count(i, n)
		moved += int64(n)
		if rate > 0 {
			// A delay of the path is not made up for by a burst.
			due = later(due.Add(time.Duration(float64(n)*8/rate*1e9)), time.Now().Add(-paceStep))
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && p.more(ctx) {
			continue
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return p.over(c, err)
		}
	}
	return p.over(c, nil)
}

// buffer returns the buffer of one call, and the rate of one connection, bit/s.
func (p *pacer) buffer() ([]byte, float64) {
	size := int(p.flow.Block)
	if size == 0 {
		size = fullBlock
	}
	rate := float64(p.rate) / float64(len(p.conns))
	if rate > 0 {
		size = min(size, max(int(rate/8*paceStep.Seconds()), leastStep))
	}
	return digits(size), rate
}

// more reports whether there is time left.
func (p *pacer) more(ctx context.Context) bool {
	return ctx.Err() == nil && (p.end.IsZero() || time.Now().Before(p.end))
}

// arm sets the deadline of the next call to the end at the latest.
func (p *pacer) arm(c *net.TCPConn) error {
	if p.role == model.Receiver {
		return c.SetReadDeadline(time.Now().Add(time.Second))
	}
	until := time.Now().Add(time.Second)
	if !p.end.IsZero() && p.end.Before(until) {
		until = p.end
	}
	return c.SetWriteDeadline(until)
}

// over closes this end's half of c. It ignores an error from the peer closing.
func (p *pacer) over(c *net.TCPConn, err error) error {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if p.role == model.Receiver && p.shared {
		return err
	}
	if failed := c.CloseWrite(); err == nil {
		err = failed
	}
	if !p.end.IsZero() && time.Until(p.end) < time.Duration((1-enough)*float64(p.flow.Duration)) {
		return nil // a peer that has done its own part may close
	}
	return err
}

func (p *pacer) count(i, n int) {
	if n == 0 {
		return
	}
	p.counts[i].Add(int64(n))
	now := max(int64(time.Since(p.start)), 1)
	p.first.CompareAndSwap(0, now)
	p.last.Store(now)
}

// Bounds of unsent data in the send buffer: a client would get it after the end of its test.
const (
	leastAhead = 16 << 10
	mostAhead  = 1 << 20
	aheadTime  = 20 * time.Millisecond // of data, at a rate
)

// aheadOfPath bounds the send buffers of a sender.
func (p *pacer) aheadOfPath() {
	if p.role == model.Receiver {
		return
	}
	ahead := mostAhead
	if _, rate := p.buffer(); rate > 0 {
		ahead = min(max(int(rate/8*aheadTime.Seconds()), leastAhead), mostAhead)
	}
	for _, c := range p.conns {
		_ = sockio.LimitUnsent(c, ahead) // if it fails, more is sent after the end
	}
}

// acknowledged returns how much of the data written to connection i has arrived; all of it if
// the system does not report that.
func (p *pacer) acknowledged(i int) int64 {
	n := p.counts[i].Load()
	if p.role == model.Receiver {
		return n
	}
	queue, err := sockio.Unacknowledged(p.conns[i])
	if err != nil {
		return n
	}
	return max(n-int64(queue), 0)
}

// ackStep is how often a finished sender checks what has arrived.
const ackStep = 5 * time.Millisecond

// awaitAcknowledged waits at the end of a sender until everything has arrived, or there is no
// progress, and records the time.
func (p *pacer) awaitAcknowledged(ctx context.Context) {
	if p.role == model.Receiver {
		return
	}
	step := time.NewTicker(ackStep)
	defer step.Stop()
	prev := &p.part.Prev
	limit := prev.At + settleTime
	for ctx.Err() == nil && prev.At < limit {
		all := true
		for i := range p.counts {
			// The FIN takes one byte of the queue.
			all = all && p.acknowledged(i)+1 >= p.counts[i].Load()
		}
		if all {
			prev.Bytes = 0
			for i := range p.counts {
				prev.Set(i, p.counts[i].Load())
			}
			return
		}
		select {
		case <-step.C:
		case <-ctx.Done():
		}
		before := prev.Bytes
		p.part.Look(time.Since(p.start))
		if prev.Bytes > before {
			limit = prev.At + settleTime
		}
	}
}

// flowReport returns this end's report of the direction.
func (p *pacer) flowReport() model.FlowReport {
	f := p.part.Flow()
	if p.role == model.Receiver && p.flow.Omit == 0 {
		f.Window = time.Duration(p.last.Load() - p.first.Load())
	}
	if p.role == model.Sender {
		f.TCP = p.summary()
	}
	return f
}

// summary returns the kernel's statistics at the end of the first connection, and the
// retransmissions of all connections since their start.
func (p *pacer) summary() *model.TCPSummary {
	const source = "TCP_INFO"
	first, err := tcpinfo.Read(p.conns[0])
	if err != nil {
		return nil
	}
	out := &model.TCPSummary{
		MSS: first.MSS, PathMTU: first.PathMTU, Timestamps: first.Timestamps, SACK: first.SACK,
		SendScale: first.SendScale, RecvScale: first.RecvScale, RTT: first.RTT, RTTMin: first.RTTMin,
	}
	var resent int64
	for _, c := range p.conns {
		info, err := tcpinfo.Read(c)
		n, known := info.Retransmits.Get()
		if err != nil || !known {
			return out
		}
		resent += n
	}
	out.Retransmits = fact.Known(resent, source)
	if name, err := tcpinfo.Congestion(p.conns[0]); err == nil {
		out.Congestion = fact.Known(name, "TCP_CONGESTION")
	}
	return out
}

// failure adds the errors to r as a warning, or returns them if no byte moved.
func (p *pacer) failure(r model.EndReport) (model.EndReport, error) {
	err := errors.Join(p.errs...)
	switch {
	case p.part.Prev.Bytes == 0 && err == nil:
		err = io.ErrUnexpectedEOF
		fallthrough
	case p.part.Prev.Bytes == 0:
		return model.EndReport{}, fmt.Errorf("%s %s: no byte moved: %w", p.direction, p.role, err)
	case err != nil:
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s %s: %v", p.direction, p.role, err))
	}
	return r, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earlier returns the earlier of a and b, or a if b is zero.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}

// digits returns iperf 2's payload: no server takes its first byte for a header (section 4).
func digits(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = '0' + byte(i%10)
	}
	return b
}
