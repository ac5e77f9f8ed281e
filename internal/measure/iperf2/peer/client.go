package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/tcpbulk"
	"linerate/internal/panics"
)

// Client measures with a foreign iperf 2 server. The zero value uses the protocol of 2.1, which
// servers of 2.0.5 also understand for the modes that they have. It may be used for several
// runs, one after the other.
type Client struct {
	// Legacy sends the 24-byte header of 2.0.5. It saves the second spent waiting for an ack
	// that a server of 2.0 never sends, and excludes the modes of 2.1.
	Legacy bool
	// ConnectBack requests payload from the server in the way of 2.0: the server connects to
	// the client, on ListenPort, for model.From (-r, with an empty test before) and model.Both
	// (-d). This does not work through NAT. Otherwise the client uses the modes of 2.1,
	// --reverse and --full-duplex, which a server of 2.0 misunderstands.
	ConnectBack bool
	// ListenPort is the port on which a server connects back, 1 to 65535; 0 is any free port.
	ListenPort int
	// Rate limits the TCP payload that this end sends, over all streams (-b); 0 is no limit.
	// The flow has the rate for UDP.
	Rate units.BitRate
	// Egress selects the source of connections and datagrams.
	Egress model.Egress
	// Met, if not nil, is called when the server has answered the header. Over UDP, and if
	// payload only goes to the server, which a server of 2.0 does not answer, it is called once
	// the connections are open.
	Met func()

	settling time.Duration // 0 is settleTime; for tests
	slack    time.Duration // 0 is slack; for tests
}

// Run measures one flow with the server at addr (host:port), over UDP if that is the engine,
// and returns this end's report and what is known of the server's. emit gets the samples of
// this end, from one goroutine at a time.
//
// Streams share f.Bytes; each carries at most 2^31-1 if the server sends. A run that ended
// early returns partial results with a warning. The error wraps errors.ErrUnsupported for
// features that the protocol, or Legacy, does not have, and ErrIperf3 if the server runs
// iperf3.
func (c Client) Run(ctx context.Context, addr string, f model.Flow, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	far.Host = model.Far
	f.Streams = max(f.Streams, 1)
	s := newSink(model.Near, emit)
	t := &clientTest{Client: c, addr: addr, flow: f, sink: s, bulk: tcpbulk.New()}
	t.udp, t.datagrams = udp.Of(f)
	if err := t.prepare(); err != nil {
		return model.EndReport{Host: model.Near}, far, err
	}
	if t.datagrams {
		err = t.runUDP(ctx)
	} else {
		err = t.runTCP(ctx)
	}
	near, fault := s.result()
	t.far.Host = model.Far
	return near, t.far, t.judgePeer(ctx, near, errors.Join(err, fault))
}

// clientTest is one run of a client.
type clientTest struct {
	Client
	addr string
	flow model.Flow
	mode iperf2.Mode
	sink *sink
	bulk *tcpbulk.Engine
	far  model.EndReport

	udp       udp.Params // with datagrams
	datagrams bool
	heard     bool // a report of the server arrived
}

func (t *clientTest) options() engine.SocketOptions {
	o := options(t.flow)
	o.Egress = t.Egress
	return o
}

// Validate reports every fault of f at once, joined.
func (c Client) Validate(f model.Flow) error {
	bulk := f
	bulk.Engine = ""
	u, datagrams := udp.Of(f)
	if datagrams {
		bulk.Block, bulk.Params = 0, ""
	}
	var faults []error
	if err := tcpbulk.New().Validate(bulk); err != nil {
		faults = append(faults, err)
	}
	if c.ListenPort < 0 || c.ListenPort > math.MaxUint16 {
		faults = append(faults, fmt.Errorf("port %d to listen on: not between 1 and %d", c.ListenPort, math.MaxUint16))
	}
	if datagrams && (f.Block < 0 || f.Block != 0 && f.Block < minDatagram || f.Block > maxDatagram) {
		faults = append(faults, fmt.Errorf("datagrams of %d bytes: not between %d and %d", f.Block, minDatagram, maxDatagram))
	}
	if c.Rate < 0 || u.Rate < 0 {
		faults = append(faults, errors.New("the rate is negative"))
	}
	if c.mode(f) == iperf2.TradeOff && !c.Legacy && f.Streams > 1 {
		// 2.1.8 hangs with its own client too (-r -P 3).
		faults = append(faults, fmt.Errorf("%d streams from a server that connects back: %w: servers of iperf 2.1 hang or crash",
			f.Streams, errors.ErrUnsupported))
	}
	if _, err := c.header(f, c.mode(f)); err != nil {
		faults = append(faults, err)
	}
	if !datagrams && f.Engine != "" && f.Engine != tcpbulk.Name {
		faults = append(faults, fmt.Errorf("iperf 2 only streams payload: %w", errors.ErrUnsupported))
	}
	return errors.Join(faults...)
}

func (t *clientTest) prepare() error {
	t.mode = t.Client.mode(t.flow)
	if err := t.Validate(t.flow); err != nil {
		return fmt.Errorf("flow: %w", err)
	}
	return nil
}

// mode returns the protocol's mode for the direction of f.
func (c Client) mode(f model.Flow) iperf2.Mode {
	switch {
	case f.Direction == model.From && c.ConnectBack:
		return iperf2.TradeOff
	case f.Direction == model.From:
		return iperf2.Reverse
	case f.Direction == model.Both && c.ConnectBack:
		return iperf2.Dual
	case f.Direction == model.Both:
		return iperf2.FullDuplex
	default:
		return iperf2.Forward
	}
}

// header returns the headers of the flow's connections, without the port.
func (c Client) header(f model.Flow, m iperf2.Mode) ([]iperf2.Header, error) {
	out := make([]iperf2.Header, max(f.Streams, 1))
	for i := range out {
		h := iperf2.NewHeader(m, f.Engine == udp.Name)
		if c.Legacy {
			var err error
			if h, err = iperf2.NewOldHeader(m); err != nil {
				return nil, fmt.Errorf("header: %w", err)
			}
			h.WinBand = int32(min(f.Window, math.MaxInt32))
		}
		h.Extension.TOS = uint16(c.Egress.DSCP) << 2
		if c.Rate > 0 && m != iperf2.Forward && f.Engine != udp.Name {
			h.Extension.BitsPerSecond = uint64(float64(c.Rate) / float64(len(out)))
		}
		h.Threads, h.BufferLen = int32(len(out)), int32(min(f.Block, math.MaxInt32))
		if m.ConnectsBack() && !c.Legacy {
			// A server of 2.1 connects back once for each header, and often hangs if several
			// headers claim to belong together, even with a client of 2.1 (-d -P 3). A server
			// of 2.0 looks at the first header alone.
			h.Threads = 1
		}
		amount, err := amountOf(f, len(out), i)
		if err != nil {
			return nil, fmt.Errorf("header: %w", err)
		}
		h.Amount = amount
		out[i] = h
	}
	return out, nil
}

// amountOf returns the amount of connection i of n.
func amountOf(f model.Flow, n, i int) (iperf2.Amount, error) {
	if f.Bytes == 0 {
		return iperf2.AmountOfTime(f.Omit + f.Duration)
	}
	part := share(f.Bytes, n, i)
	if f.Direction == model.To {
		part = min(part, math.MaxInt32) // the server ignores it
	}
	return iperf2.AmountOfBytes(part)
}

func (t *clientTest) runTCP(ctx context.Context) error {
	conns, warnings, err := dial(ctx, t.addr, t.flow.Streams, t.options())
	if err != nil {
		return err
	}
	for _, w := range warnings {
		t.sink.warn("%s", w)
	}
	stop := context.AfterFunc(ctx, func() { closeAll(conns) })
	in, err := t.open(ctx, conns)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		closeAll(conns)
		closeAll(in)
		return err
	}
	if t.Met != nil && (t.mode == iperf2.Forward || len(in) > 0) {
		t.Met()
	}
	switch t.mode {
	case iperf2.Reverse:
		t.receive(ctx, conns)
	case iperf2.FullDuplex:
		t.fullDuplex(ctx, conns)
	case iperf2.TradeOff:
		t.receive(ctx, in)
		closeAll(conns)
	case iperf2.Dual:
		together(func() { t.receive(ctx, in) }, func() { t.send(ctx, conns) })
	case iperf2.Forward:
		t.send(ctx, conns)
	}
	return nil
}

// open sends the headers, waits for the acks that are due, and returns the connections that the
// server opens back.
//
// A trade-off is used for its return test: the forward test before it is left empty.
func (t *clientTest) open(ctx context.Context, conns []*net.TCPConn) (in []*net.TCPConn, err error) {
	headers, err := t.header(t.flow, t.mode)
	if err != nil {
		return nil, err
	}
	if !t.mode.ConnectsBack() {
		return nil, t.greet(conns, headers)
	}
	local := *conns[0].LocalAddr().(*net.TCPAddr)
	local.Port = t.ListenPort
	back, err := listenTCP(&local, t.options())
	if err != nil {
		return nil, fmt.Errorf("listen for the server's connection: %w", err)
	}
	defer back.Close()
	for i := range headers {
		headers[i].Port = int32(back.Addr().(*net.TCPAddr).Port)
	}
	if err := t.greet(conns, headers); err != nil {
		return nil, err
	}
	if t.mode == iperf2.TradeOff {
		for _, c := range conns {
			if err := c.CloseWrite(); err != nil {
				return nil, fmt.Errorf("end empty test: %w", err)
			}
		}
	}
	return acceptFrom(ctx, back, hostOf(conns[0].RemoteAddr()), len(conns), backTime)
}

// greet sends the headers and waits for the acks that are due.
func (t *clientTest) greet(conns []*net.TCPConn, headers []iperf2.Header) error {
	for i, c := range conns {
		if err := c.SetDeadline(time.Now().Add(openTime)); err != nil {
			return fmt.Errorf("send header: %w", err)
		}
		if _, err := c.Write(headers[i].Append(nil, 0)); err != nil {
			return fmt.Errorf("send header to %s: %w", t.addr, err)
		}
	}
	if headers[0].Flags.AckDue() {
		acked, err := readAcks(conns)
		if err != nil {
			return err
		}
		if acked && t.Met != nil {
			t.Met()
		}
		if !acked {
			t.sink.warn("the server did not answer the header as iperf 2.1 does: it is older, or no iperf 2")
		}
	}
	for _, c := range conns {
		if err := c.SetDeadline(time.Time{}); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
	}
	return nil
}

// readAcks waits until each server thread has acknowledged its header, or ackTime is over,
// which is no error: servers of 2.0 send no ack.
func readAcks(conns []*net.TCPConn) (acked bool, err error) {
	limit := time.Now().Add(ackTime)
	for _, c := range conns {
		if err := c.SetReadDeadline(limit); err != nil {
			return false, fmt.Errorf("read ack: %w", err)
		}
		err := readAck(c)
		var late net.Error
		switch {
		case errors.As(err, &late) && late.Timeout():
			return false, nil
		case err != nil:
			return false, fmt.Errorf("server %s: %w", c.RemoteAddr(), err)
		}
	}
	return true, nil
}

// half returns this end's part in direction d.
func (t *clientTest) half(d model.Direction, conns []*net.TCPConn) half {
	h := half{direction: d, role: model.Receiver, conns: conns, flow: t.flow, idle: idleTime}
	if d == model.To {
		h.role, h.rate = model.Sender, t.Rate
	}
	h.limit = t.longest()
	if d == model.From {
		h.most = t.flow.Bytes
	}
	return h
}

// A test with an amount of bytes has no duration: it may take as long as a path of this rate
// needs for them, plus slack.
const (
	leastRate = units.BitRate(64e3)
	whiles    = 6 // times slack
)

// longest bounds how long a half may take, whatever the server does.
func (t *clientTest) longest() time.Duration {
	more := cmp.Or(t.slack, slack)
	if t.flow.Duration > 0 {
		return t.flow.Omit + t.flow.Duration + more
	}
	seconds := float64(t.flow.Bytes) * 8 / float64(leastRate)
	return whiles*more + time.Duration(min(seconds, forever.Seconds())*float64(time.Second))
}

func (t *clientTest) receive(ctx context.Context, conns []*net.TCPConn) {
	h := t.half(model.From, conns)
	if t.mode == iperf2.Reverse { // no ack identifies the server
		if err := payloadBegins(ctx, conns, cmp.Or(t.slack, openTime)); err != nil {
			closeAll(conns)
			t.sink.add(model.EndReport{}, fmt.Errorf("from receiver: %w", err))
			return
		}
		if t.flow.Omit == 0 {
			h.lead = leadBytes
		}
	}
	h.run(ctx, t.bulk, t.sink)
}

// send sends, and infers what the server received.
func (t *clientTest) send(ctx context.Context, conns []*net.TCPConn) {
	held := twins(conns)
	began := time.Now()
	r := t.half(model.To, conns).run(ctx, t.bulk, t.sink)
	delivered := settle(ctx, held, cmp.Or(t.settling, settleTime))
	t.infer(r, delivered, time.Since(began))
}

// infer reports what the server received in direction to.
func (t *clientTest) infer(r model.EndReport, delivered bool, took time.Duration) {
	if len(r.Flows) == 0 {
		return
	}
	sent := r.Flows[0]
	got := model.FlowReport{
		Direction: model.To, Role: model.Receiver, Bytes: sent.Bytes, Window: sent.Window, Streams: sent.Streams,
	}
	how := "as sent"
	if delivered && t.flow.Omit == 0 {
		got.Window, how = took, "as sent, over the time until all was acknowledged"
	}
	t.far.Flows = append(t.far.Flows, got)
	t.far.Warnings = append(t.far.Warnings, "iperf 2 reports no TCP results: to is "+how)
}

// together runs halves at once.
func together(runs ...func()) {
	var running panics.Group
	for _, run := range runs {
		running.Go(run)
	}
	running.Wait()
}

func (t *clientTest) fullDuplex(ctx context.Context, conns []*net.TCPConn) {
	held := twins(conns)
	in, out := t.half(model.From, conns), t.half(model.To, held)
	in.shared, out.shared = true, true
	in.twinned = held[0] != conns[0]
	var sent model.EndReport
	together(
		func() { in.run(ctx, t.bulk, t.sink) },
		func() { sent = out.run(ctx, t.bulk, t.sink) })
	settle(ctx, held, cmp.Or(t.settling, settleTime))
	t.infer(sent, false, 0) // the time above covers both directions
}
