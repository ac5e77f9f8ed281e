package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/tcpinfo"
)

const (
	bounceHeader = 48
	// maxHold is the longest that the server holds a response. The header's unit is
	// microseconds.
	maxHold = time.Second
)

// bounce answers messages until the client closes. The first four bytes of the first message
// have been read.
func (t *tcpSession) bounce(ctx context.Context) (report model.EndReport, err error) {
	stop := context.AfterFunc(ctx, func() { _ = t.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, max(min(t.Block, maxBounce), bounceHeader))
	// The word that Peek has read: bounce back and no other flag.
	copy(buf, []byte{0x00, 0x80, 0x00, 0x00})
	began, have, total, messages := time.Now(), 4, units.Bytes(0), 0
	for {
		var n int
		n, err = t.bounceOne(ctx, buf, have)
		if err != nil {
			break
		}
		total += units.Bytes(n)
		messages++
		have = 0
	}
	window := time.Since(began)
	report = model.EndReport{Host: model.Far, Flows: []model.FlowReport{
		{Direction: model.To, Role: model.Receiver, Bytes: total, Window: window, Streams: []units.Bytes{total}},
		{Direction: model.From, Role: model.Sender, Bytes: total, Window: window, Streams: []units.Bytes{total}},
	}}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if total == 0 {
		return model.EndReport{}, err
	}
	report.Values = []model.Value{{Direction: model.To, Metric: model.RequestRate, Value: float64(messages) / window.Seconds()}}
	if info, terr := tcpinfo.Read(t.conn); terr == nil {
		if rtt, ok := info.RTT.Get(); ok {
			report.Values = append(report.Values, model.Value{Direction: model.To, Metric: model.RTT, Value: rtt.Seconds()})
		}
	}
	return report, err
}

// maxBounce bounds the buffer of a bounce-back test, whatever the largest block.
const maxBounce units.Bytes = 1 << 20

// bounceOne reads and returns a message whose first have bytes have been read. It returns io.EOF
// if the client closed between messages.
func (t *tcpSession) bounceOne(ctx context.Context, buf []byte, have int) (int, error) {
	if err := t.conn.SetDeadline(time.Now().Add(t.Idle)); err != nil || ctx.Err() != nil {
		return 0, errors.Join(err, context.Cause(ctx))
	}
	n, err := io.ReadFull(t.conn, buf[have:bounceHeader])
	got := time.Now()
	switch {
	case errors.Is(err, io.EOF) && have == 0:
		return 0, io.EOF
	case err != nil:
		return 0, fmt.Errorf("read bounce-back header after %d bytes: %w", have+n, noEOF(err))
	}
	m, err := iperf2.ParseBounce(buf[:bounceHeader])
	if err != nil {
		return 0, err
	}
	if uint64(m.Size) > uint64(len(buf)) {
		return 0, fmt.Errorf("bounce-back message of %d bytes: the most is %d", m.Size, len(buf))
	}
	size := int(m.Size)
	if _, err := io.ReadFull(t.conn, buf[bounceHeader:size]); err != nil {
		return 0, fmt.Errorf("read bounce-back message of %d bytes: %w", size, noEOF(err))
	}
	if hold := min(time.Duration(m.Hold)*time.Microsecond, maxHold); hold > 0 {
		select {
		case <-time.After(hold):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	m.ServerGot, m.ServerSent = stampOf(got), stampOf(time.Now())
	if err := m.Put(buf[:size]); err != nil {
		return 0, err
	}
	if _, err := t.conn.Write(buf[:size]); err != nil {
		return 0, fmt.Errorf("return bounce-back message: %w", err)
	}
	return size, nil
}
