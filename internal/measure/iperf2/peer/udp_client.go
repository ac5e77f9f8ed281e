package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/datagram"
	"linerate/internal/measure/goruntime"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/run"
	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

// udpClient is the UDP part of a client's run.
type udpClient struct {
	*clientTest
	size    int
	layout  iperf2.Layout
	streams []*udpStream
	back    *udpBack // receives if the server connects back
	server  netip.Addr
}

// udpStream is one connected socket.
type udpStream struct {
	conn   *datagram.Conn
	stamp  stamper
	quota  int64 // datagrams; 0 is no limit
	sender *datagram.Sender
	in     *arrivals
	report *iperf2.Report // the server's
	err    error
}

// udpRate returns the payload rate per direction, over all streams.
func (t *clientTest) udpRate() units.BitRate { return t.udp.Rate }

func (t *clientTest) runUDP(ctx context.Context) error {
	u := &udpClient{clientTest: t, layout: iperf2.Layout16}
	if t.Legacy {
		u.layout = iperf2.Layout12
	}
	defer u.close()
	if err := u.open(ctx); err != nil {
		return err
	}
	if t.Met != nil {
		t.Met()
	}
	threads := 0
	for _, s := range u.streams {
		threads += 2 * s.conn.Threads()
	}
	defer goruntime.Begin(threads).End()
	defer u.processor()()
	switch t.mode {
	case iperf2.Forward:
		u.send(ctx)
	case iperf2.Reverse:
		u.receive(ctx, true)
	case iperf2.FullDuplex:
		together(func() { u.receive(ctx, false) }, func() { u.send(ctx) })
	case iperf2.TradeOff:
		together(func() { u.ask(ctx) }, func() { u.back.receive(ctx, u) })
	case iperf2.Dual:
		together(func() { u.send(ctx) }, func() { u.back.receive(ctx, u) })
	}
	return nil
}

// open creates the sockets and the headers.
func (u *udpClient) open(ctx context.Context) error {
	u.show(ctx)
	headers, err := u.header(u.flow, u.mode)
	if err != nil {
		return err
	}
	o := datagram.Options{Plain: u.udp.Plain, SendBuffer: u.flow.Window, RecvBuffer: u.flow.Window}
	per := u.udpRate() / units.BitRate(len(headers))
	for i, h := range headers {
		c, err := sockio.Dial(ctx, net.Dialer{}, "udp", u.addr, u.options())
		if err != nil {
			return fmt.Errorf("reach iperf 2 at %s: %w", u.addr, err)
		}
		socket := c.(*net.UDPConn)
		local := socket.LocalAddr().(*net.UDPAddr)
		if i == 0 {
			u.server = socket.RemoteAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
			u.size = u.sizeFor(local)
			if err := u.listen(local); err != nil {
				return errors.Join(err, c.Close())
			}
		}
		if u.back != nil {
			h.Port = int32(u.back.port())
		}
		if h.BufferLen = int32(u.flow.Block); u.layout == iperf2.Layout12 {
			h.WinBand = int32(min(max(per, 0), 1<<31-1))
		} else {
			h.Extension.BitsPerSecond = uint64(max(per, 0))
		}
		conn, err := datagram.Attach(socket, o)
		if err != nil {
			return err
		}
		s := &udpStream{conn: conn, in: newArrivals(u.layout, u.flow.Omit)}
		s.stamp = stamper{layout: u.layout, header: h.Append(nil, u.layout.HeaderOffset())}
		if n := share(u.flow.Bytes, len(headers), i); n > 0 {
			s.quota = (n + int64(u.size) - 1) / int64(u.size)
		}
		u.streams = append(u.streams, s)
	}
	return nil
}

// sizeFor returns the payload of a datagram in bytes.
func (u *udpClient) sizeFor(local *net.UDPAddr) int {
	switch {
	case u.flow.Block > 0:
		return int(u.flow.Block)
	case local.IP.To4() == nil:
		return size6
	}
	return size4
}

// listen creates the socket for the return direction, if the mode has one.
func (u *udpClient) listen(local *net.UDPAddr) error {
	if !u.mode.ConnectsBack() {
		return nil
	}
	l, err := net.ListenUDP("udp", &net.UDPAddr{IP: local.IP, Zone: local.Zone, Port: u.ListenPort})
	if err != nil {
		return fmt.Errorf("listen for the server's datagrams: %w", err)
	}
	u.back = newUDPBack(l)
	return nil
}

func (u *udpClient) close() {
	for _, s := range u.streams {
		_ = s.conn.Close() // everything has been sent
	}
	if u.back != nil {
		u.back.close()
	}
}

// processor starts to measure this process's CPU time, and returns the function that reports
// it.
func (u *udpClient) processor() func() {
	before, err := sockio.ProcessCPU()
	began := time.Now()
	return func() {
		after, failed := sockio.ProcessCPU()
		if err != nil || failed != nil {
			return // this system does not report it
		}
		used := after.Sub(before)
		u.sink.add(model.EndReport{
			CPUUser: used.User, CPUSystem: used.System, CPUWindow: time.Since(began),
			SystemBusy: fact.Unknown[float64]("not read beside UDP"), Waiting: u.streams[0].conn.Waiting(),
		}, nil)
	}
}

// each calls f for all streams at once.
func (u *udpClient) each(f func(s *udpStream)) {
	var running panics.Group
	for _, s := range u.streams {
		running.Go(func() { f(s) })
	}
	running.Wait()
}

// send sends direction to, requests the server's reports if the mode has them, and reports both
// ends' results.
func (u *udpClient) send(ctx context.Context) {
	ctx, unknown := context.WithCancelCause(ctx)
	defer unknown(nil)
	for i, s := range u.streams {
		if err := u.prepareSender(ctx, s, i); err != nil {
			u.sink.add(model.EndReport{}, err)
			return
		}
	}
	stop := u.meter(model.To, model.Sender, func(r *run.Reading) {
		for i, s := range u.streams {
			n := s.sender.Sent.Load()
			r.Set(i, n*int64(u.size))
			r.Datagrams += n
		}
	})
	recognised := u.recognise(ctx, unknown)
	began := time.Now()
	u.each(func(s *udpStream) {
		s.sender.Start(began)
		s.stamp.wall = began
		s.err = s.sender.Run()
	})
	window := time.Since(began)
	stop()
	recognised()
	if errors.Is(context.Cause(ctx), ErrIperf3) {
		u.sink.add(model.EndReport{}, fmt.Errorf("%s: %w", u.addr, ErrIperf3))
		return
	}
	u.each(func(s *udpStream) { u.finish(ctx, s) })
	u.stateSent(window)
	if u.mode != iperf2.FullDuplex {
		u.stateReports()
	}
}

// recognise watches for refused datagrams, and calls found with ErrIperf3 if an iperf3 server
// refuses them: it accepts none outside its own tests. stop ends the watch.
func (u *udpClient) recognise(ctx context.Context, found func(error)) (stop func()) {
	done := make(chan struct{})
	var watching panics.Group
	watching.Go(func() {
		tick := time.NewTicker(finalEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			for _, s := range u.streams {
				if s.sender.Refused.Load() == 0 {
					continue
				}
				if speaksIperf3(ctx, u.addr, u.Egress) {
					found(ErrIperf3)
				}
				return
			}
		}
	})
	return func() {
		close(done)
		watching.Wait()
	}
}

func (u *udpClient) prepareSender(ctx context.Context, s *udpStream, i int) error {
	end := u.flow.Omit + u.flow.Duration
	o := datagram.SenderOptions{
		Start: time.Now(), Size: u.size, First: firstNumber(u.layout), Stamp: s.stamp.stamp,
		Gap: gapOf(u.udpRate()/units.BitRate(len(u.streams)), u.size),
	}
	last := o.First + s.quota
	o.Offset = time.Duration(o.Gap * float64(i) / float64(len(u.streams)))
	o.Before = func(at time.Duration, next int64) (time.Duration, bool) {
		over := s.quota > 0 && next >= last || s.quota == 0 && at >= end
		return 0, !over && ctx.Err() == nil
	}
	if s.quota > 0 {
		o.Most = func(next int64) int64 { return last - next }
	}
	if u.udp.Pacing == udp.PacingKernel {
		o.Pacing = datagram.ByKernel
	}
	var err error
	s.sender, err = datagram.NewSender(s.conn, o)
	return err
}

// finish sends final datagrams until the report arrives. In full duplex the server sends no
// report and ends by its own time, so one is enough.
func (u *udpClient) finish(ctx context.Context, s *udpStream) {
	b := digits(u.size)
	next := s.sender.Next()
	if u.mode == iperf2.FullDuplex {
		s.stamp.stamp(b, -next, time.Since(s.stamp.wall))
		_ = s.conn.Write(b) // it is not answered, and may be lost
		return
	}
	s.report = u.askReport(ctx, s, b, next)
}

// askReport sends final datagrams, with ever more negative numbers, until the report arrives,
// and returns it; nil if none does.
func (u *udpClient) askReport(ctx context.Context, s *udpStream, b []byte, next int64) *iperf2.Report {
	in := make([]byte, maxDatagram)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for try, failed := int64(0), 0; try < finalTries && failed < mostRefusals; try++ {
		s.stamp.stamp(b, -(next + try), time.Since(s.stamp.wall))
		if err := s.conn.Write(b); err != nil {
			failed++ // it is sent again
		}
		for wait := time.Now().Add(finalEvery); time.Now().Before(wait) && ctx.Err() == nil; <-tick.C {
			n, err := s.conn.Poll(in)
			if err != nil || n == 0 {
				continue
			}
			if r, _, err := iperf2.ParseReport(in[:n]); err == nil {
				return &r
			}
		}
	}
	return nil
}

// stateSent reports what this end sent. The final datagram is one more, which the receiver also
// counts.
func (u *udpClient) stateSent(window time.Duration) {
	f := model.FlowReport{Direction: model.To, Role: model.Sender, Window: window, UDP: &model.UDPSummary{}}
	var faults []error
	for _, s := range u.streams {
		sent := s.sender.Sent.Load() + 1
		n := units.Bytes(sent) * units.Bytes(u.size)
		f.Streams = append(f.Streams, n)
		f.Bytes += n
		f.UDP.Sent += sent
		f.UDP.Refused += s.sender.Refused.Load()
		f.UDP.Pacing, f.UDP.Segmented = s.sender.Pacing(), s.sender.Segmented()
		faults = append(faults, s.err)
	}
	r := model.EndReport{Flows: []model.FlowReport{f}, Waiting: u.streams[0].conn.Waiting()}
	if err := errors.Join(faults...); err != nil {
		r.Warnings = append(r.Warnings, fmt.Sprintf("to sender: %v", err))
	}
	u.sink.add(r, nil)
}

// stateReports reports what the server says that it received.
func (u *udpClient) stateReports() {
	f := model.FlowReport{Direction: model.To, Role: model.Receiver, UDP: &model.UDPSummary{}}
	var jitter float64
	reports := 0
	for i, s := range u.streams {
		u.heard = u.heard || s.report != nil
		switch {
		case s.report == nil:
			u.sink.warn("to: the server sent no report of stream %d", i+1)
			continue
		case !plausible(*s.report, s.sender.Next(), u.size):
			u.sink.warn("to: the server's report of stream %d makes no sense: %d bytes, %d of %d datagrams lost, %.1f s",
				i+1, s.report.Bytes, s.report.Lost, s.report.Datagrams, s.report.Duration.Float())
			continue
		}
		reports++
		n := units.Bytes(s.report.Bytes)
		f.Streams = append(f.Streams, n)
		f.Bytes += n
		f.Window = max(f.Window, time.Duration(s.report.Duration.Float()*1e9))
		lost := max(0, s.report.Lost)
		f.UDP.Received += s.report.Datagrams - lost
		f.UDP.Lost += lost
		f.UDP.Reordered += s.report.OutOfOrder
		jitter += s.report.Jitter.Float()
	}
	if reports == 0 {
		return
	}
	if f.UDP.Jitter = fact.Known(time.Duration(jitter/float64(reports)*1e9), "the server's report"); jitter == 0 {
		f.UDP.Jitter = fact.Unknown[time.Duration]("the server's report has none, or less than its microsecond")
	}
	u.far.Flows = append(u.far.Flows, f)
	if u.flow.Omit > 0 {
		u.far.Warnings = append(u.far.Warnings, "to receiver: iperf 2 omits no warm-up: its figures are of the whole test")
	}
}

// plausible reports whether a report can be true of a flow whose next datagram has number next.
// A report in another version's layout cannot.
func plausible(r iperf2.Report, next int64, size int) bool {
	most := next + finalTries + 1
	return r.Datagrams >= 0 && r.Datagrams <= most && r.Lost <= r.Datagrams && r.OutOfOrder >= 0 && r.OutOfOrder <= most && r.Jitter.Float() < 1e8 &&
		r.Bytes <= uint64(most)*uint64(size) && r.Duration.Float() < 1e8
}
