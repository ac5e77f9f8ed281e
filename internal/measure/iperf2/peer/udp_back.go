package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/datagram"
	"linerate/internal/measure/run"
)

// A reverse test repeats its first datagram until the server's data arrives (section 6).
const (
	helloEvery = 20 * time.Millisecond
	helloTries = 100
	noData     = 2500 * time.Millisecond // after which none will arrive
)

// errNoData reports that a server sent none of the requested payload.
var errNoData = errors.New("the server sent nothing: servers of 2.0 cannot, some send only to clients that they trust, or datagrams are blocked on the way")

// receive receives direction from on the client's own sockets. If ask is true it first requests
// the data.
func (u *udpClient) receive(ctx context.Context, ask bool) {
	flows := make([]*arrivals, len(u.streams))
	for i, s := range u.streams {
		flows[i] = s.in
	}
	stop := u.meterOf(flows)
	began := time.Now()
	// If ask is true, no sender uses the sockets.
	u.each(func(s *udpStream) {
		if err := u.receiveOne(ctx, s, began, ask); err != nil {
			u.sink.warn("from receiver: %v", err)
		}
	})
	stop()
	u.stateReceived(flows)
}

func (u *udpClient) meterOf(flows []*arrivals) (stop func()) {
	return u.meter(model.From, model.Receiver, func(r *run.Reading) {
		for i, a := range flows {
			r.Set(i, a.bytes.Load())
			r.Datagrams += a.got.Load()
			r.Missing += a.lost.Load()
		}
	})
}

// stateReceived reports what this end received.
func (u *udpClient) stateReceived(flows []*arrivals) {
	f := summarise(model.From, flows)
	r := model.EndReport{Flows: []model.FlowReport{f}}
	if f.Bytes == 0 {
		u.sink.add(model.EndReport{}, fmt.Errorf("from receiver: %w", errNoData))
		return
	}
	for i, a := range flows {
		if !a.final.Load() {
			r.Warnings = append(r.Warnings, fmt.Sprintf("from receiver: the end of stream %d got lost: what was lost right before is not counted", i+1))
		}
	}
	if float64(f.Window) < enough*float64(u.flow.Duration) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("from receiver: the peer sent for %v of %v", f.Window.Round(time.Millisecond), u.flow.Duration))
	}
	u.sink.add(r, nil)
}

// receiveOne receives one stream until its final datagram or a timeout. If something is missing then,
// the final datagram may have overtaken it.
func (u *udpClient) receiveOne(ctx context.Context, s *udpStream, began time.Time, ask bool) error {
	hello := digits(u.size)
	tries, failed, asked := 0, 0, -helloEvery
	last := time.Duration(0)
	s.in.late = true
	r, err := datagram.NewReceiver(s.conn, datagram.ReceiverOptions{
		Start: began, Size: maxDatagram,
		Handle: func(b []byte, at time.Duration, follows bool) {
			s.in.take(b, at, follows)
			last = at
		},
		After: func(at time.Duration) bool {
			if ask && !s.in.begun && tries < helloTries && at-asked >= helloEvery {
				s.stamp.wall = time.Now()
				s.stamp.stamp(hello, firstNumber(u.layout), 0)
				if err := s.conn.Write(hello); err != nil {
					failed++ // it is sent again
				}
				tries, asked = tries+1, at
			}
			over := s.in.whole() || s.in.final.Load() && at-last > afterFinal
			return failed < mostRefusals && !over && ctx.Err() == nil && !u.quiet(at, last)
		},
	})
	if err != nil {
		return err
	}
	return r.Run()
}

// quiet reports whether no more is expected at time at, if the last datagram arrived at last.
func (u *udpClient) quiet(at, last time.Duration) bool {
	switch quiet := at - last; {
	case at > u.longest():
		return true // it might continue forever
	case last == 0:
		return quiet > noData
	case u.flow.Duration == 0:
		return quiet > idleTime
	default:
		return quiet > silence && at > u.flow.Omit+u.flow.Duration || quiet > idleTime
	}
}

// udpBack receives the data of a server that connects back.
type udpBack struct {
	conn  *net.UDPConn
	flows map[netip.AddrPort]*arrivals
	order []*arrivals
	acks  map[*arrivals]int
	room  map[*arrivals]int // bytes that may be sent to its sender
}

func newUDPBack(c *net.UDPConn) *udpBack {
	_ = c.SetReadBuffer(int(datagram.DefaultRecvBuffer)) // the system grants what it can
	return &udpBack{conn: c, flows: map[netip.AddrPort]*arrivals{}, acks: map[*arrivals]int{}, room: map[*arrivals]int{}}
}

func (b *udpBack) port() int { return b.conn.LocalAddr().(*net.UDPAddr).Port }

func (b *udpBack) close() { _ = b.conn.Close() }

// receive receives one flow per stream of the client, and answers their final datagrams.
func (b *udpBack) receive(ctx context.Context, u *udpClient) {
	for range u.streams {
		b.order = append(b.order, newArrivals(u.layout, u.flow.Omit))
	}
	stop := u.meterOf(b.order)
	began := time.Now()
	buf := make([]byte, maxDatagram)
	last := time.Duration(0)
	for ctx.Err() == nil {
		at := time.Since(began)
		if b.over() && at-last > afterFinal || u.quiet(at, last) {
			break
		}
		if err := b.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			break
		}
		n, from, err := b.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			continue
		}
		if from.Addr().Unmap() != u.server {
			continue
		}
		if at := time.Since(began); b.take(buf[:n], from, at) {
			last = at
		}
	}
	stop()
	u.stateReceived(b.order)
}

// over reports whether all flows have ended.
func (b *udpBack) over() bool {
	for _, a := range b.order {
		if !a.final.Load() {
			return false
		}
	}
	return true
}

// take counts a datagram and reports whether it belongs to a flow.
func (b *udpBack) take(d []byte, from netip.AddrPort, at time.Duration) bool {
	a, known := b.flows[from]
	if !known {
		if len(b.flows) == len(b.order) {
			return false
		}
		a = b.order[len(b.flows)]
		b.flows[from] = a
	}
	b.room[a] = min(b.room[a]+mostAnswer*len(d), mostAcks*maxDatagram)
	if a.take(d, at, false) && b.acks[a] < mostAcks {
		b.acks[a]++
		if out, err := reportFor(a, d); err == nil && len(out) <= b.room[a] {
			b.room[a] -= len(out)
			_, _ = b.conn.WriteToUDPAddrPort(out, from) // if it is lost the peer asks again
		}
	}
	return true
}

// reportFor returns the answer to the final datagram d.
func reportFor(a *arrivals, d []byte) ([]byte, error) {
	b := make([]byte, max(len(d), leastReport))
	copy(b, d)
	n, err := a.report().Put(b, a.layout)
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

// ask ends an empty forward test, after which the server sends.
func (u *udpClient) ask(ctx context.Context) {
	for _, s := range u.streams {
		s.stamp.wall = time.Now()
		b := digits(u.size)
		s.stamp.stamp(b, firstNumber(u.layout), 0)
		_ = s.conn.Write(b) // a final datagram follows
	}
	u.each(func(s *udpStream) { s.report = u.askReport(ctx, s, digits(u.size), firstNumber(u.layout)+1) })
	for _, s := range u.streams {
		if s.report == nil {
			u.sink.warn("from: the server did not answer the empty test before its own")
			return
		}
	}
}
