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

// ErrIperf2 says that the server is one of iperf 2, whose protocol is another.
var ErrIperf2 = errors.New("this looks like an iperf 2 server")

const (
	// silence is after which a server that has not said its first word may be
	// one of iperf 2: it takes a cookie for the begin of the payload.
	silence = 1500 * time.Millisecond
	// ackTime is how long one of iperf 2.1 may take to ack a header.
	ackTime = time.Second
)

// unlikeIperf2 makes c one that a server of iperf 2 takes for payload from its
// first byte on. Others look like the flags of a header, for the rest of which
// 2.1 waits with all further clients: a first letter says that an extension
// follows, and an odd second one that the header's length is given
// (docs/wire/iperf2.md section 2).
func unlikeIperf2(c iperf3.Cookie) iperf3.Cookie {
	c[0] = '2' + c[0]%6   // of the digits in the alphabet of cookies
	c[1] = '2' + c[1]%3*2 // 2, 4 or 6
	return c
}

// firstWord waits for the server's first state. It returns ErrIperf2 for a
// server of iperf 2.1; nothing tells one of 2.0 from a server that is silent.
func (t *clientTest) firstWord(ctx context.Context) (iperf3.State, error) {
	early := control{t.ctl.conn, min(silence, t.ctl.patience)}
	s, err := early.next()
	switch {
	case err == nil && s != 0: // an ack begins with 0, which is no state
		return s, nil
	case err != nil && (!isTimeout(err) || ctx.Err() != nil): // whoever gives up makes the read end so, too
		return 0, err
	case speaksIperf2(ctx, t.ctl.conn.RemoteAddr().String(), t.Egress):
		return 0, ErrIperf2
	case err == nil || early.patience == t.ctl.patience:
		return s, err
	}
	return t.ctl.next()
}

// speaksIperf2 reports whether a server of iperf 2.1 listens at addr. It begins a
// test there and leaves at once.
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

// errOneWay says that the server closed what it should send on. Before 3.7 they
// know no bidirectional tests, and take the client's streams for all there are.
var errOneWay = fmt.Errorf("the server does not send: iperf3 before 3.7 knows no bidirectional tests: %w", errors.ErrUnsupported)

// oneWayOnly reports whether such a server has refused the streams of l, with a
// byte at most on each.
func (t *clientTest) oneWayOnly(l *way) bool {
	if t.params.Direction != iperf3.Bidirectional || l.udp != nil {
		return false
	}
	bytes, _ := l.told()
	n, err := l.received()
	most := 2 * int64(len(l.kept)) // a byte, and the end, which Linux counts as another
	return err == nil && n <= most || err != nil && bytes <= float64(most)
}

// begunEarly reports whether such a server has begun its test before the streams
// in direction d were open.
func (t *clientTest) begunEarly(d model.Direction) bool {
	if t.params.Direction != iperf3.Bidirectional || d != model.From {
		return false
	}
	s, err := control{t.ctl.conn, readingTime}.next()
	return err == nil && s == iperf3.TestStart
}
