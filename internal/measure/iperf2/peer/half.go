package peer

import (
	"context"
	"fmt"
	"math"
	"net"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/tcpbulk"
	"linerate/internal/panics"
)

// half is one direction of a TCP test at this end.
type half struct {
	direction model.Direction
	role      model.Role
	conns     []*net.TCPConn // run closes them, but of shared ones only those that tcpbulk got
	flow      model.Flow
	rate      units.BitRate // limit over all connections; 0 is no limit
	shared    bool          // the connections carry the other half too
	twinned   bool          // conns are twins, or have twins
	since     time.Time     // start of a sender's time; if zero, the start of run
	lead      int64         // counted bytes that each connection has moved before
	empty     bool          // moving nothing is no error
	idle      time.Duration // timeout without progress; 0 if none
	limit     time.Duration // timeout of the whole half; 0 if none
	most      units.Bytes   // what a receiver accepts; 0 is no limit
	guest     *guest        // pays from its budget; nil has no limits
	delivered func() bool   // waits until the peer has what was sent, and reports whether it has; may be nil
}

// untilEnd is more than any peer sends: with it tcpbulk counts from the first byte to the last,
// and closes when the peer does.
const untilEnd units.Bytes = math.MaxInt64

// forever is longer than any test.
const forever = 1000 * 24 * time.Hour

// run moves the payload and passes report and samples to s.
func (h half) run(ctx context.Context, bulk *tcpbulk.Engine, s *sink) model.EndReport {
	emit, end := s.begin()
	defer end()
	if h.flow.Interval == 0 {
		h.flow.Interval = time.Second
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if h.limit > 0 {
		t := time.AfterFunc(h.limit, func() { cancel(errOverrun) })
		defer t.Stop()
	}
	if h.idle > 0 {
		t := time.AfterFunc(h.idle, func() { cancel(errIdle) })
		defer t.Stop()
		emit = h.watch(t, emit)
	}
	if h.most > 0 {
		emit = h.bounded(cancel, emit)
	}
	if h.guest != nil {
		emit = h.charge(cancel, emit)
	}
	move := h.bulk
	if h.rate > 0 || h.shared && (h.role == model.Sender || !h.twinned) {
		move = h.pace // tcpbulk's sender ends both directions of its connection
	}
	began := time.Now()
	report, err := move(ctx, bulk, s.host, emit)
	if whole := h.delivered != nil && h.delivered(); whole && h.rate == 0 && h.flow.Omit == 0 && len(report.Flows) > 0 {
		report.Flows[0].Window = time.Since(began) // of all that arrived; pace has counted that itself
	}
	for i := range report.Flows {
		f := &report.Flows[i]
		for k := range f.Streams {
			f.Streams[k] += units.Bytes(h.lead)
			f.Bytes += units.Bytes(h.lead)
		}
	}
	if h.empty && len(report.Flows) == 0 {
		err = nil
	}
	report.Warnings = append(report.Warnings, h.judge(ctx, report, time.Since(began))...)
	s.add(report, err)
	return report
}

// watch returns emit with a reset of t whenever a byte has moved.
func (h half) watch(t *time.Timer, emit func([]model.Sample)) func([]model.Sample) {
	return func(list []model.Sample) {
		for _, one := range list {
			if (one.Metric == model.Goodput || one.Metric == model.Sent) && one.Value > 0 {
				t.Reset(h.idle)
			}
		}
		emit(list)
	}
}

// bounded returns emit with a check that ends the half if clearly more arrived than was
// requested. Excess from a sender's blocks or this end's clock is tolerated.
func (h half) bounded(end context.CancelCauseFunc, emit func([]model.Sample)) func([]model.Sample) {
	got, most := 0.0, 2*float64(h.most)+float64(len(h.conns))*fullBlock
	return func(list []model.Sample) {
		for _, one := range list {
			if one.Metric == model.Goodput {
				got += one.Value * one.Length.Seconds() / 8
			}
		}
		if got > most {
			end(errTooMuch)
		}
		emit(list)
	}
}

// charge returns emit with a count of what was sent. A refusal of the budget ends the half.
func (h half) charge(end context.CancelCauseFunc, emit func([]model.Sample)) func([]model.Sample) {
	return func(list []model.Sample) {
		sent := 0.0
		for _, one := range list {
			if one.Metric == model.Sent {
				sent += one.Value * one.Length.Seconds() / 8
			}
		}
		if err := h.guest.charge(units.Bytes(sent)); err != nil {
			end(err)
		}
		emit(list)
	}
}

// bulk moves the payload with tcpbulk.
func (h half) bulk(ctx context.Context, bulk *tcpbulk.Engine, host model.Host, emit func([]model.Sample)) (model.EndReport, error) {
	env := engine.Env{Host: host, Open: func(context.Context, int, engine.SocketOptions) (engine.Opened, error) {
		return engine.Opened{Conns: h.conns}, nil
	}}
	f := h.bulkFlow()
	test, err := bulk.Unplanned().Prepare(ctx, env, f) // judge compares with the request
	if err != nil {
		closeAll(h.conns)
		return model.EndReport{}, fmt.Errorf("prepare %s: %w", h.direction, err)
	}
	over := make(chan struct{})
	var timer panics.Group
	if h.role == model.Sender && f.Duration > 0 {
		timer.Go(func() {
			defer test.Stop()
			stopAfter(test, f.Omit+f.Duration, over)
		})
	}
	report, err := test.Run(ctx, emit)
	close(over)
	timer.Wait()
	if failed := test.Close(); failed != nil {
		report.Warnings = append(report.Warnings, fmt.Sprintf("close connections: %v", failed))
	}
	return report, err
}

// stopAfter stops a sender once it has sent for d, unless it ends before.
func stopAfter(test engine.Test, d time.Duration, over <-chan struct{}) {
	select {
	case <-test.Measured(): // a sender closes it when it begins
	case <-over:
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		test.Stop()
	case <-over:
	}
}

// bulkFlow returns the flow for tcpbulk. A receiver ends when the peer closes.
func (h half) bulkFlow() model.Flow {
	f := model.Flow{
		Direction: h.direction, Streams: len(h.conns), Interval: h.flow.Interval,
		Block: h.flow.Block, Nagle: h.flow.Nagle,
	}
	switch {
	case h.role == model.Sender:
		f.Duration, f.Omit, f.Bytes = h.flow.Duration, h.flow.Omit, h.flow.Bytes
	case h.shared, h.flow.Omit > 0:
		// A number of bytes excludes Omit, and closing when the peer closes would end the other
		// half.
		f.Duration, f.Omit = forever, h.flow.Omit
	default:
		f.Bytes = untilEnd
	}
	return f
}

// enough is the share of a test below which judge warns.
const enough = 0.9

// judge returns warnings if a half did not do what was requested.
func (h half) judge(ctx context.Context, r model.EndReport, took time.Duration) []string {
	var out []string
	warn := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("%s %s: ", h.direction, h.role)+fmt.Sprintf(format, args...))
	}
	if ctx.Err() != nil {
		warn("given up after %v: %v", took.Round(time.Millisecond), context.Cause(ctx))
	}
	if h.role == model.Sender || len(r.Flows) == 0 {
		return out // tcpbulk has judged the sender
	}
	f := r.Flows[0]
	switch {
	case h.flow.Duration > 0 && float64(f.Window) < enough*float64(h.flow.Duration):
		warn("the peer sent for %v of %v", f.Window.Round(time.Millisecond), h.flow.Duration)
	case h.flow.Bytes > 0 && f.Bytes < h.flow.Bytes:
		warn("the peer sent %d of %d bytes", f.Bytes, h.flow.Bytes)
	}
	return out
}

// share returns the part of total that stream i of n sends: equal parts, the first streams one
// more for the remainder.
func share(total units.Bytes, n, i int) int64 {
	part := int64(total) / int64(n)
	if int64(i) < int64(total)%int64(n) {
		part++
	}
	return part
}
