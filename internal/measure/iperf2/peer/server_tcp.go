package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/sockio"
)

// tcpSession is one connection from a client.
type tcpSession struct {
	*server
	conn   *net.TCPConn
	from   netip.AddrPort
	header iperf2.Header
	lead   int64     // bytes read that count as payload
	got    time.Time // when the header arrived
	sink   *sink
	guest  *guest
}

// handle serves one connection, which the caller closes, and fills in r. It returns false if
// there is nothing to report: a client that only probed the port.
func (s *server) handle(ctx context.Context, c *net.TCPConn, place *accept.Place, r *Result) bool {
	s.proven.note(r.Peer.Addr())
	ctx, cancel := context.WithTimeoutCause(ctx, s.Time, errOverrun)
	defer cancel()
	t := &tcpSession{server: s, conn: c, from: r.Peer, sink: newSink(model.Far, nil)}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	opening, err := t.open()
	stop()
	if !place.Leave() {
		err = errCrowded
	}
	if errors.Is(err, io.EOF) {
		return false
	}
	if err == nil {
		err = s.tcp.admit(t.from.Addr())
	}
	if err != nil {
		r.Refused, r.Err = true, err
		return true
	}
	defer s.tcp.release(t.from.Addr())
	leave, err := t.afford()
	if err != nil {
		r.Refused, r.Err = true, err
		return true
	}
	defer leave()
	if opening == iperf2.OpeningBounceBack {
		r.Bounce, r.Threads = true, 1
		s.Begun(*r)
		r.Report, r.Err = t.bounce(ctx)
		for _, f := range r.Report.Flows {
			if f.Role == model.Sender {
				r.Err = errors.Join(r.Err, t.guest.charge(f.Bytes))
			}
		}
		return len(r.Report.Flows) > 0 || r.Err != nil
	}
	r.Mode, r.Threads = t.header.Mode(), int(t.header.Threads)
	s.Begun(*r)
	if err := sockio.MarkDSCP(c, t.header.DSCP()); err != nil {
		t.sink.warn("the client asked for it: %v", err)
	}
	for _, w := range t.header.Unobeyed() {
		t.sink.warn("from sender: %s", w)
	}
	switch r.Mode {
	case iperf2.Forward:
		t.receive(ctx)
	case iperf2.Reverse:
		err = t.sendOn(ctx, []*net.TCPConn{c}, 0)
	case iperf2.FullDuplex:
		err = t.fullDuplex(ctx)
	case iperf2.Dual, iperf2.TradeOff:
		err = t.withReturn(ctx, r.Mode)
	}
	report, fault := t.sink.result()
	r.Report, r.Err = report, errors.Join(err, fault)
	return true
}

// afford takes the session's needs from the budget, until leave: buffers, and a second
// connection if it both sends and receives.
func (t *tcpSession) afford() (leave func(), err error) {
	g, gone, err := t.guests.enter(t.Budget, t.from.Addr())
	if err != nil {
		return nil, err
	}
	block := units.Bytes(fullBlock)
	if n := t.header.BufferLen; n > 0 {
		block = units.Bytes(n)
	}
	give, err := g.share.Take(budget.Amounts{Descriptors: 2, Memory: 2 * min(block, max(t.Block, maxBounce))})
	if err != nil {
		gone()
		return nil, err
	}
	t.guest = g
	return func() {
		give()
		gone()
	}, nil
}

// open reads the header and answers it. It clears the deadlines.
func (t *tcpSession) open() (iperf2.Opening, error) {
	if err := t.conn.SetDeadline(time.Now().Add(t.Opening)); err != nil {
		return 0, fmt.Errorf("read header: %w", err)
	}
	var b [256]byte
	if _, err := io.ReadFull(t.conn, b[:4]); err != nil {
		return 0, fmt.Errorf("read header: %w", err)
	}
	t.got = time.Now()
	opening, n, err := iperf2.Peek([4]byte(b[:4]))
	if err != nil {
		return 0, err
	}
	t.lead = int64(max(n, 4))
	if opening == iperf2.OpeningBounceBack {
		return opening, nil // every message has its header
	}
	if n > 0 {
		if _, err := io.ReadFull(t.conn, b[4:n]); err != nil {
			return 0, fmt.Errorf("read header of %d bytes: %w", n, noEOF(err))
		}
		if t.header, err = iperf2.ParseHeader(b[:n], 0); err != nil {
			return 0, err
		}
	}
	if t.header.Flags.AckDue() {
		if _, err := t.conn.Write(ackOf(t.header, t.got).Append(nil)); err != nil {
			return 0, fmt.Errorf("ack header: %w", err)
		}
	}
	if err := t.conn.SetDeadline(time.Time{}); err != nil {
		return 0, fmt.Errorf("begin: %w", err)
	}
	return opening, nil
}

// noEOF returns err, but a header that is cut off between two reads is an error too.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ackOf returns the ack of a header that was read at time got.
func ackOf(h iperf2.Header, got time.Time) iperf2.Ack {
	a := iperf2.Ack{VersionUpper: iperf2.VersionUpper, VersionLower: iperf2.VersionLower}
	if h.Extension.Upper&iperf2.TripTime != 0 {
		a.HasTrip, a.ClientSent, a.ServerGot, a.ServerAcked = true, h.Start.At, stampOf(got), stampOf(time.Now())
	}
	return a
}

func stampOf(t time.Time) iperf2.Stamp {
	return iperf2.Stamp{Seconds: uint32(t.Unix()), Microseconds: uint32(t.Nanosecond() / 1000)}
}

// half returns the server's part in direction d.
func (t *tcpSession) half(d model.Direction, conns []*net.TCPConn) half {
	h := half{direction: d, role: model.Receiver, conns: conns, rate: t.Rate, idle: t.Idle, guest: t.guest}
	// The samples show whether anything moves.
	h.flow.Interval = min(max(t.Idle/4, 10*time.Millisecond), time.Second)
	if n := units.Bytes(t.header.BufferLen); n > 0 {
		h.flow.Block = min(n, t.Block)
	} else {
		h.flow.Block = min(fullBlock, t.Block)
	}
	if d == model.From {
		h.role = model.Sender
		h.rate = lower(h.rate, units.BitRate(t.header.Pace()))
	}
	return h
}

// lower returns the lower of two limits; 0 means no limit.
func lower(a, b units.BitRate) units.BitRate {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// receive receives until the client closes.
func (t *tcpSession) receive(ctx context.Context) {
	h := t.half(model.To, []*net.TCPConn{t.conn})
	h.lead = t.lead
	h.empty = t.header.Mode() == iperf2.TradeOff // the client may want the return test only
	h.run(ctx, t.bulk, t.sink)
}

// defaultTime is how long a server sends by default, as in iperf 2.
const defaultTime = 10 * time.Second

// sender returns the half that sends what the header requests on conns, each of which has
// carried lead bytes of it already.
func (t *tcpSession) sender(conns []*net.TCPConn, lead int64) (half, error) {
	h := t.half(model.From, conns)
	h.lead = lead
	d, timed := t.header.Amount.Time()
	n, counted := t.header.Amount.Bytes()
	switch {
	case timed:
		h.flow.Duration = min(d, t.Time)
	case counted && n <= lead:
		return half{}, fmt.Errorf("return test of %d bytes: too short to measure", n)
	case counted:
		h.flow.Bytes = units.Bytes(n - lead)
	default:
		h.flow.Duration = min(defaultTime, t.Time)
	}
	return h, nil
}

// sendOn sends what the header requests, and waits until it has arrived.
func (t *tcpSession) sendOn(ctx context.Context, conns []*net.TCPConn, lead int64) error {
	h, err := t.sender(conns, lead)
	if err != nil {
		closeAll(conns)
		return err
	}
	held := twins(conns)
	h.delivered = func() bool { return settle(ctx, held, min(settleTime, t.Idle)) }
	h.run(ctx, t.bulk, t.sink)
	return nil
}

func (t *tcpSession) fullDuplex(ctx context.Context) error {
	conns := []*net.TCPConn{t.conn}
	held := twins(conns)
	out, err := t.sender(held, 0)
	if err != nil {
		closeAll(held)
		return errors.Join(err, t.conn.Close())
	}
	in := t.half(model.To, conns)
	in.lead, out.since = t.lead, t.got
	in.shared, out.shared = true, true
	in.twinned = held[0] != conns[0]
	t.together(
		func() { in.run(ctx, t.bulk, t.sink) },
		func() { out.run(ctx, t.bulk, t.sink) })
	settle(ctx, held, min(settleTime, t.Idle))
	return nil
}

// withReturn receives, and sends on a connection back to the client: at the same time, or
// afterwards.
func (t *tcpSession) withReturn(ctx context.Context, mode iperf2.Mode) error {
	if p := t.header.Port; p < 1 || p > math.MaxUint16 {
		return errors.Join(fmt.Errorf("%s test: the client listens on port %d: not between 1 and %d", mode, p, math.MaxUint16),
			t.conn.Close())
	}
	if mode == iperf2.TradeOff {
		t.receive(ctx)
		return t.sendBack(ctx)
	}
	var err error
	t.together(func() { t.receive(ctx) }, func() { err = t.sendBack(ctx) })
	return err
}

// together runs both. A panic in either ends only this client.
func (t *tcpSession) together(one, other func()) {
	guarded := func(f func()) func() {
		return func() { accept.Guard(t.Log, "client "+t.from.String(), f) }
	}
	together(guarded(one), guarded(other))
}

// sendBack connects to the client, only to the address that it came from, and sends. A client
// gets as long to listen as to send its header: 2.1 listens only after its own half, and 2.0
// sends its header before it listens.
func (t *tcpSession) sendBack(ctx context.Context) error {
	to := netip.AddrPortFrom(t.from.Addr(), uint16(t.header.Port)).String()
	o := options(model.Flow{})
	o.Egress.DSCP = t.header.DSCP()
	o.Egress.Bind = t.conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().String()
	var (
		conns []*net.TCPConn
		err   error
	)
	for limit, pause := time.Now().Add(t.Opening), 10*time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		conns, _, err = dial(ctx, to, 1, o)
		if err == nil || !time.Now().Add(pause).Before(limit) || ctx.Err() != nil {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	if err != nil {
		return fmt.Errorf("return test: %w", err)
	}
	// tcpbulk's payload may begin with any byte, and the client's listener looks at the first
	// ones (section 4).
	first := digits(safeLead)
	if err := conns[0].SetDeadline(time.Now().Add(t.Opening)); err != nil {
		return errors.Join(fmt.Errorf("return test: %w", err), conns[0].Close())
	}
	if _, err := conns[0].Write(first); err != nil {
		return errors.Join(fmt.Errorf("return test: %w", err), conns[0].Close())
	}
	if err := conns[0].SetDeadline(time.Time{}); err != nil {
		return errors.Join(fmt.Errorf("return test: %w", err), conns[0].Close())
	}
	return t.sendOn(ctx, conns, safeLead)
}

// safeLead is how many digits a return test begins with: as many as the header that 2.0.5 reads
// first.
const safeLead = 24
