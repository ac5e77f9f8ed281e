package peer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/datagram"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/sockio"
)

// udpServer serves the flows of one socket. Its loop owns them.
type udpServer struct {
	*server
	conn   *accept.Socket
	began  time.Time
	from   netip.AddrPort // of the current datagram
	flows  map[netip.AddrPort]*udpFlow
	came   map[netip.Addr]*level // received traffic by address
	swept  time.Duration         // last scan of the flows
	logged time.Duration         // last logged refusal

	waiting map[netip.AddrPort]*newcomer
	sought  time.Duration // when room was last made
	spare   []byte        // as large as a datagram

	reading accept.Retry

	mu      sync.Mutex
	granted map[netip.Addr]units.BitRate // rate of sending to each address
}

// udpFlow is the traffic from and to one client address.
type udpFlow struct {
	in      *arrivals
	from    netip.AddrPort
	local   accept.Local // destination of its first datagram
	header  iperf2.Header
	old     bool // of 2.0.5
	mode    iperf2.Mode
	seen    time.Duration // the last datagram
	acks    int
	got     int64  // bytes received
	gave    int64  // bytes of answers
	over    bool   // reported as ended
	refused bool   // recorded only to be ignored
	thrown  string // why it was ended; "" if it was not

	known   bool          // its address is verified
	guest   *guest        // pays for it
	leave   func()        // gives back its place and its part of the budget
	charged time.Duration // when its time was last charged

	sending sync.WaitGroup
	sent    udpSent
	back    bool // sending has begun
	stop    context.CancelFunc
}

// udpSent is the result of a flow's sender. It is read after sending.
type udpSent struct {
	flow  model.FlowReport
	warns []string
}

const (
	sweepEvery = 100 * time.Millisecond
	tellEvery  = time.Second // between two log lines about refused datagrams
	// refusedFor is how long a refused address is remembered.
	refusedFor = 2 * time.Second
	// mostThreads bounds the number of flows that a client may announce.
	mostThreads = 1000
	// mostRefused bounds the refused addresses kept.
	mostRefused = 1024
)

func (s *server) serveUDP(ctx context.Context, pc net.PacketConn) error {
	conn, ok := pc.(*net.UDPConn)
	if !ok {
		return fmt.Errorf("serve %T: %w: only UDP carries iperf 2", pc, errors.ErrUnsupported)
	}
	_ = conn.SetReadBuffer(int(datagram.DefaultRecvBuffer)) // the system grants what it can
	u := &udpServer{server: s, conn: accept.New(conn), began: time.Now(), flows: map[netip.AddrPort]*udpFlow{}, came: map[netip.Addr]*level{}, granted: map[netip.Addr]units.BitRate{},
		waiting: map[netip.AddrPort]*newcomer{}, spare: make([]byte, maxDatagram+1)}
	defer u.endAll()
	u.reading = accept.Retry{What: "read UDP", Log: s.Log}
	for buf := make([]byte, maxDatagram+1); ; {
		var closed error
		// One guard around the loop: one for each datagram would cost time.
		accept.Guard(s.Log, "UDP", func() { closed = u.read(ctx, buf) })
		if closed != nil {
			return closed
		}
		u.spoiled()
	}
}

// read handles datagrams until the socket is closed, and returns that error.
func (u *udpServer) read(ctx context.Context, buf []byte) error {
	for {
		if err := u.conn.SetReadDeadline(time.Now().Add(sweepEvery)); err != nil {
			return err
		}
		n, from, err := u.conn.Read(buf)
		at := time.Since(u.began)
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return err
		case err == nil:
			u.reading.Worked()
			u.from = from
			u.take(ctx, buf[:n], from, at)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			u.reading.Failed(ctx, err)
		}
		if at-u.swept >= sweepEvery {
			u.sweep(ctx, at)
		}
	}
}

// spoiled ends the flow whose datagram caused a panic.
func (u *udpServer) spoiled() {
	f := u.flows[u.from]
	if f == nil {
		f = &udpFlow{from: u.from, refused: true, seen: time.Since(u.began)}
		u.flows[u.from] = f
	}
	if !f.refused && !f.over {
		f.over = true
		u.goGuarded(f.from, func() { u.end(f) })
	}
}

// take handles one datagram.
func (u *udpServer) take(ctx context.Context, b []byte, from netip.AddrPort, at time.Duration) {
	f, known := u.flows[from]
	if !known {
		if f = u.begin(ctx, b, from, at); f == nil {
			return
		}
	}
	f.seen = at
	f.got += int64(len(b))
	if f.refused || f.over {
		return
	}
	if u.floods(from.Addr(), len(b), at) {
		u.throwOut(from.Addr(), at)
		return
	}
	final := f.in.take(b, at, false)
	if final && f.mode != iperf2.Reverse && f.mode != iperf2.FullDuplex && f.acks < mostAcks {
		f.acks++
		out, err := reportFor(f.in, b)
		if err == nil && u.mayAnswer(f, len(out)) {
			err = u.conn.Send(out, f.local, from)
		}
		if err != nil {
			u.logf("client %v: report: %v", from, err)
		}
	}
}

// tell logs an event that may occur with every datagram, at most once per tellEvery.
func (u *udpServer) tell(at time.Duration, format string, args ...any) {
	if at-u.logged >= tellEvery || u.logged == 0 {
		u.logged = at
		u.logf(format, args...)
	}
}

// sweep removes the flows that have ended.
func (u *udpServer) sweep(ctx context.Context, at time.Duration) {
	u.swept = at
	u.forget(at)
	for from, l := range u.came {
		if at-l.at > refusedFor {
			delete(u.came, from)
		}
	}
	for key, f := range u.flows {
		quiet := at - f.seen
		if f.deserted(quiet) {
			f.stop()
		}
		u.charge(f, at)
		switch {
		case f.refused:
			if quiet > refusedFor {
				delete(u.flows, key)
			}
			continue
		case f.mode == iperf2.Reverse:
			// The client is silent: the sender knows when to end.
		case f.in.final.Load():
			if quiet <= afterFinal {
				continue
			}
		case quiet <= u.Idle && at-f.in.first <= u.Time:
			continue
		}
		if !f.over {
			f.over = true
			if f.mode == iperf2.TradeOff && f.in.final.Load() {
				u.reply(ctx, f)
			}
			u.goGuarded(f.from, func() { u.end(f) })
		}
		// The client may continue, but that is no new flow.
		if quiet > u.Idle || f.in.final.Load() && quiet > afterFinal {
			delete(u.flows, key)
		}
	}
}

// deserted reports whether a client that both sends and receives has gone.
func (f *udpFlow) deserted(quiet time.Duration) bool {
	both := f.mode == iperf2.FullDuplex || f.mode == iperf2.Dual
	return both && f.stop != nil && quiet > silence && !f.in.final.Load()
}

// endAll ends the remaining flows when the server ends.
func (u *udpServer) endAll() {
	for _, f := range u.flows {
		if !f.refused && !f.over {
			u.goGuarded(f.from, func() { u.end(f) })
		}
	}
}

// end waits for the flow's sender and reports it.
func (u *udpServer) end(f *udpFlow) {
	f.sending.Wait()
	_ = f.guest.charge(units.Bytes(f.gave)) // it has ended anyway
	f.leave()
	r := model.EndReport{Host: model.Far, Warnings: f.sent.warns}
	if f.mode != iperf2.Reverse {
		in := summarise(model.To, []*arrivals{f.in})
		r.Flows = append(r.Flows, in)
	}
	switch {
	case f.thrown != "":
		r.Warnings = append(r.Warnings, f.thrown)
	case f.mode != iperf2.Reverse && !f.in.final.Load():
		r.Warnings = append(r.Warnings, "to receiver: the client vanished: what was lost at the end is not counted")
	}
	if f.back {
		r.Flows = append(r.Flows, f.sent.flow)
	}
	u.Done(Result{Peer: f.from, Mode: f.mode, UDP: true, Threads: int(f.header.Threads), Report: r})
}

// reply starts to send what the header requests: from the server's own socket, or to the port
// where the client listens.
func (u *udpServer) reply(ctx context.Context, f *udpFlow) {
	f.back = true
	ctx, f.stop = context.WithCancel(ctx)
	u.running.Add(1)
	f.sending.Add(1)
	go func() {
		defer u.running.Done()
		defer f.sending.Done()
		defer f.stop()
		accept.Guard(u.Log, "client "+f.from.String(), func() {
			if err := u.sendTo(ctx, f); err != nil {
				f.sent.warns = append(f.sent.warns, fmt.Sprintf("from sender: %v", err))
			}
		})
	}()
}

func (u *udpServer) sendTo(ctx context.Context, f *udpFlow) error {
	p := u.plan(f)
	defer u.giveBack(f.from.Addr(), p.rate)
	if p.rate <= 0 {
		return fmt.Errorf("the client gets %v over UDP already, which is the most", u.udpMost())
	}
	give, err := f.guest.share.Take(budget.Amounts{UDP: p.rate})
	if err != nil {
		return err
	}
	defer give()
	p.charge = f.guest.charge
	f.sent.warns = append(f.sent.warns, f.header.Unobeyed()...)
	if !f.mode.ConnectsBack() {
		from := f.local
		if n := f.header.DSCP(); n != 0 {
			mark := sockio.MarkMessage(n, f.from.Addr())
			if from.Control = slices.Concat(from.Control, mark); mark == nil {
				f.sent.warns = append(f.sent.warns, "from sender: not marked "+model.FormatDSCP(n)+" as the client asked: all clients share this socket")
			}
		}
		p.write = func(b []byte) error {
			return u.conn.Send(b, from, f.from)
		}
		f.sent.flow = p.run(ctx)
		return p.err
	}
	to := netip.AddrPortFrom(f.from.Addr(), uint16(f.header.Port))
	o := engine.SocketOptions{Egress: model.Egress{DSCP: f.header.DSCP()}}
	if f.local.Addr.IsValid() {
		o.Egress.Bind = f.local.Addr.String()
	}
	c, err := sockio.Dial(ctx, net.Dialer{}, "udp", to.String(), o)
	if err != nil {
		return fmt.Errorf("reach client at %v: %w", to, err)
	}
	defer c.Close()
	p.write = func(b []byte) error {
		_, err := c.Write(b)
		return err
	}
	p.await = func(b []byte) bool {
		_ = c.SetReadDeadline(time.Now().Add(finalEvery))
		n, err := c.Read(b)
		if err != nil {
			return false
		}
		_, _, err = iperf2.ParseReport(b[:n])
		return err == nil
	}
	f.sent.flow = p.run(ctx)
	return p.err
}

// plan returns a sender for what the header requests, within the server's limits.
func (u *udpServer) plan(f *udpFlow) *udpSender {
	p := &udpSender{stamp: stamper{layout: f.in.layout}, size: size4}
	if a := f.from.Addr(); !a.Is4() && !a.Is4In6() {
		p.size = size6
	}
	if n := f.header.BufferLen; n > 0 {
		p.size = int(min(max(n, minDatagram), maxDatagram))
	}
	// Flows of one test share the rate, if the client announces them.
	fair := u.udpMost() / units.BitRate(f.threads())
	asked := f.asked()
	if most := f.guest.share.Limits().UDP; most != 0 {
		fair = min(fair, units.BitRate(math.Floor(float64(max(0, most))/float64(f.threads()))))
	}
	if asked <= 0 || asked > fair {
		asked = fair
	}
	p.rate = u.grant(f.from.Addr(), asked)
	p.length = min(defaultTime, u.UDPTime)
	if d, ok := f.header.Amount.Time(); ok {
		p.length = min(d, u.UDPTime)
	} else if n, ok := f.header.Amount.Bytes(); ok {
		p.length = u.UDPTime
		p.quota = (n + int64(p.size) - 1) / int64(p.size)
	}
	return p
}
