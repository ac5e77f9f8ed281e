package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/sockio"
)

// ErrIperf2 reports that the server runs iperf 2, which has another protocol.
var ErrIperf2 = errors.New("this looks like an iperf 2 server")

const (
	// silence is after how long a server without a first message may run iperf 2: it takes a
	// cookie for the start of the payload.
	silence = 1500 * time.Millisecond
	// ackTime is how long iperf 2.1 may take to ack a header.
	ackTime = time.Second
)

// unlikeIperf2 changes c so that an iperf 2 server takes it for payload from its first byte.
// Other cookies look like the flags of a header, and 2.1 then waits for the rest of the header,
// and serves no client meanwhile: a first letter announces an extension, and an odd second one
// the header's length (docs/wire/iperf2.md section 2).
func unlikeIperf2(c iperf3.Cookie) iperf3.Cookie {
	c[0] = '2' + c[0]%6   // one of the digits in the alphabet of cookies
	c[1] = '2' + c[1]%3*2 // 2, 4 or 6
	return c
}

// firstWord waits for the server's first state. It returns ErrIperf2 for a server of iperf 2.1;
// a server of 2.0 cannot be distinguished from a silent one.
func (t *clientTest) firstWord(ctx context.Context) (iperf3.State, error) {
	early := control{t.ctl.conn, min(silence, t.ctl.patience)}
	s, err := early.next()
	switch {
	case err == nil && s != 0: // an ack begins with 0, which is no state
		return s, nil
	case err != nil && (!isTimeout(err) || ctx.Err() != nil): // cancelling ctx also makes the read time out
		return 0, err
	case speaksIperf2(ctx, t.ctl.conn.RemoteAddr().String(), t.Egress):
		return 0, ErrIperf2
	case err == nil || early.patience == t.ctl.patience:
		return s, err
	}
	return t.ctl.next()
}

// speaksIperf2 reports whether a server of iperf 2.1 listens at addr. It begins a test there
// and leaves at once.
func speaksIperf2(ctx context.Context, addr string, from model.Egress) bool {
	ctx, cancel := context.WithTimeout(ctx, ackTime)
	defer cancel()
	h := iperf2.NewHeader(iperf2.Forward, false)
	var err error
	if h.Amount, err = iperf2.AmountOfTime(ackTime); err != nil {
		return false
	}
	return sockio.Answers(ctx, addr, from, h.Append(nil, 0), func(r io.Reader) bool {
		_, err := iperf2.ReadAck(r)
		return err == nil
	})
}

// errOneWay reports that the server closed the streams that it should send on. Servers before
// 3.7 have no bidirectional tests, and expect the client's streams only.
var errOneWay = fmt.Errorf("the server does not send: iperf3 before 3.7 knows no bidirectional tests: %w", errors.ErrUnsupported)

// oneWayOnly reports whether such a server has refused the streams of l, with at most a byte on
// each.
func (t *clientTest) oneWayOnly(l *way) bool {
	if t.params.Direction != iperf3.Bidirectional || l.udp != nil {
		return false
	}
	bytes, _ := l.progress()
	n, err := l.received()
	most := 2 * int64(len(l.kept)) // a byte, and the FIN, which Linux counts as another
	return err == nil && n <= most || err != nil && bytes <= float64(most)
}

// begunEarly reports whether such a server has begun its test before the streams in direction d
// were open.
func (t *clientTest) begunEarly(d model.Direction) bool {
	if t.params.Direction != iperf3.Bidirectional || d != model.From {
		return false
	}
	s, err := control{t.ctl.conn, readingTime}.next()
	return err == nil && s == iperf3.TestStart
}
