package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/sockio"
)

// greeter receives greetings. A greeting names no test, so the greeter passes the sender's
// address to the one test of a client at that address that is opening UDP streams. A client
// that sends no greeting does not make clients elsewhere wait.
type greeter struct {
	conn net.PacketConn

	mu    sync.Mutex
	halls map[netip.Addr]*hall // by the addresses of clients that open UDP streams
}

// hall is where tests wait for greetings from one address.
type hall struct {
	turn  chan struct{}       // held by the test that opens its streams
	found chan netip.AddrPort // addresses that have sent a greeting
	tests int                 // tests that wait for the turn, or have it; under greeter.mu
}

// enter returns the hall of an address; leave gives it back.
func (g *greeter) enter(from netip.Addr) *hall {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.halls[from]
	if h == nil {
		h = &hall{turn: make(chan struct{}, 1), found: make(chan netip.AddrPort, iperf3.MaxStreams)}
		g.halls[from] = h
	}
	h.tests++
	return h
}

func (g *greeter) leave(from netip.Addr, h *hall) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h.tests--; h.tests == 0 {
		delete(g.halls, from)
	}
}

// openingPatience is how long a client may take to open its UDP streams, while other tests from
// its address wait to open theirs.
const openingPatience = 10 * time.Second

// listenUDP opens the socket for greetings on l's port, if the system lets streams share it.
func (s *server) listenUDP(ctx context.Context, l net.Listener) error {
	lc := net.ListenConfig{Control: sockio.ReusePort}
	conn, err := lc.ListenPacket(ctx, "udp", l.Addr().String())
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // UDP tests are refused
	}
	if err != nil {
		return fmt.Errorf("listen on UDP: %w", err)
	}
	s.udp = &greeter{conn: conn, halls: map[netip.Addr]*hall{}}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	s.wait.Go(func() {
		for ctx.Err() == nil { // ends with ctx, or because of a bug
			accept.Guard(s.note, "UDP greetings", func() { s.udp.listen(ctx, s.note) })
		}
	})
	return nil
}

// listen passes greetings on until the socket is closed. It drops what does not fit, as the
// network would. A read may also fail temporarily, for example because of an ICMP error for a
// datagram to a client that is gone.
func (g *greeter) listen(ctx context.Context, log func(line string)) {
	reading := accept.Retry{What: "read UDP", Log: log}
	b := make([]byte, 64)
	for {
		n, from, err := g.conn.ReadFrom(b)
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			reading.Failed(ctx, err)
			continue
		}
		reading.Worked()
		if a, ok := from.(*net.UDPAddr); ok && iperf3.IsHello(b[:n]) {
			g.pass(a.AddrPort())
		}
	}
}

// pass passes a greeting to the test that waits for it.
func (g *greeter) pass(from netip.AddrPort) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.halls[plain(from.Addr())]
	if h == nil {
		return // no other client may take a place in a test
	}
	select {
	case h.found <- from:
	default:
	}
}

// plain removes what two sockets of one host may differ in.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// openUDP opens the streams of a UDP test: for each greeting it creates a socket, connected to
// the client, which answers.
func (t *session) openUDP(ctx context.Context, all []iperf3.Stream, next <-chan heard) error {
	client := plain(t.ctl.conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
	hall := t.udp.enter(client)
	defer t.udp.leave(client, hall)
	select {
	case hall.turn <- struct{}{}:
	case h := <-next:
		return t.early(h)
	case <-ctx.Done():
		return refuse(iperf3.CodeStreamAccept, "wait for another test to open its UDP streams: %w", context.Cause(ctx))
	}
	defer func() { <-hall.turn }()
	hall.forget()
	if err := t.ctl.state(iperf3.CreateStreams); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, openingPatience)
	defer cancel()
	var conns []*net.UDPConn
	for len(conns) < len(all) {
		c, err := t.greeted(ctx, hall, next)
		if err != nil {
			for _, c := range conns {
				_ = c.Close()
			}
			return fmt.Errorf("stream %d of %d: %w", len(conns)+1, len(all), err)
		}
		conns = append(conns, c)
	}
	for _, d := range directions(t.params.Direction).Parts() {
		l := t.newWay(d, all)
		own := conns[:len(l.streams)]
		for _, c := range own {
			if err := sockio.MarkDSCP(c, int(t.params.TOS)>>2); err != nil {
				l.warnings = append(l.warnings, err.Error())
			}
		}
		conns = conns[len(l.streams):]
		if err := l.useUDP(model.Far, own, t.params, true); err != nil {
			for _, c := range conns {
				_ = c.Close()
			}
			return refuse(iperf3.CodeStreamAccept, "open streams %s: %w", d, err)
		}
		t.ways = append(t.ways, l)
	}
	return nil
}

// forget drops greetings that no test waited for.
func (h *hall) forget() {
	for {
		select {
		case <-h.found:
		default:
			return
		}
	}
}

// greeted waits for the client's next greeting and answers it.
func (t *session) greeted(ctx context.Context, from *hall, next <-chan heard) (*net.UDPConn, error) {
	select {
	case a := <-from.found:
		return t.answer(ctx, a)
	case h := <-next:
		return nil, t.early(h)
	case <-ctx.Done():
		return nil, refuse(iperf3.CodeStreamAccept, "no greeting came over UDP: %w", context.Cause(ctx))
	}
}

// answer connects a socket on the server's port to the client at a. It is bound to the address
// that the client uses, since the client accepts answers from no other.
func (t *session) answer(ctx context.Context, a netip.AddrPort) (*net.UDPConn, error) {
	local := t.ctl.conn.LocalAddr().(*net.TCPAddr).AddrPort()
	local = netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
	d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(local), Control: sockio.ReusePort}
	c, err := d.DialContext(ctx, "udp", netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String())
	if err != nil {
		return nil, refuse(iperf3.CodeStreamConnect, "answer %v over UDP: %w", a, err)
	}
	conn, ok := c.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("dialled a %T", c), c.Close())
	}
	if _, err := conn.Write(iperf3.Reply()); err != nil {
		return nil, errors.Join(refuse(iperf3.CodeStreamWrite, "answer %v over UDP: %w", a, err), conn.Close())
	}
	return conn, nil
}

// late waits, at a server, for the datagrams that arrive after the client's end of the test:
// until the highest number of each stream is what the client says it sent, or nothing more
// arrives. It returns how long datagrams still arrived.
func (t *udpTest) late(ctx context.Context, theirs []iperf3.StreamResult, limit time.Duration) time.Duration {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	begun := time.Now()
	before := int64(-1)
	for last := time.Duration(0); ; {
		now := time.Since(begun)
		all, sum := true, int64(0)
		for i, s := range t.streams {
			sum += s.came.Load()
			all = all && s.top.Load() >= theirs[i].Packets
		}
		if sum != before && before >= 0 {
			last = now
		}
		before = sum
		if all || now-last >= lateQuiet || now >= limit {
			return last
		}
		select {
		case <-ctx.Done():
			return last
		case <-t.way.over:
			return last
		case <-ticker.C:
		}
	}
}
