package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"linerate/internal/core/units"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/datagram"
	"linerate/internal/measure/program"
	"linerate/internal/measure/udpstp"
)

// server serves clients. Source addresses can be forged, so a Setup request costs only a socket
// for at most 3 s, of a limited number, and nothing from the budget: the responses are less
// than three times its bytes. Load goes only to an address that returned the activation from
// the port in its response, and until its first status PDU at most three times what it sent.
type server struct {
	program.Host
	keys    map[uint8]string // shared keys by number; nil requires none
	conn    *accept.Socket
	unknown *accept.Crowd // flows that are not activated

	patience time.Duration // timeout of clients; 0 is the protocol's

	mu      sync.Mutex
	waiting map[flowID]*newcomer
	tests   map[testID]*test
	logged  time.Time // time of the last logged refusal
	running sync.WaitGroup
}

// flowID identifies a flow that was set up.
type flowID struct {
	from  netip.AddrPort
	ident uint16
	index uint8
}

// testID identifies a test. Its flows may come from several ports.
type testID struct {
	from     netip.Addr
	ident    uint16
	upstream bool
}

// newcomer is a flow that was set up and is not activated.
type newcomer struct {
	udpstp.Setup
	from  netip.AddrPort
	conn  *net.UDPConn
	keys  udpstp.Keys
	place *accept.Place
}

const (
	// flowMemory is charged for a flow: two goroutines and their buffers, bytes.
	flowMemory = 64 << 10
	noteEvery  = time.Second
)

func newServer(conn *net.UDPConn, h program.Host, keys map[uint8]string) *server {
	_ = conn.SetReadBuffer(int(datagram.DefaultRecvBuffer)) // the system grants what it can
	return &server{Host: h, keys: keys, conn: accept.New(conn), unknown: accept.NewCrowd(h.Unknown), waiting: map[flowID]*newcomer{}, tests: map[testID]*test{}}
}

// serve answers at its port until ctx ends.
func (s *server) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.running.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = s.conn.Close() })()
	reading := accept.Retry{What: "read UDP", Log: s.Note}
	buf := make([]byte, udpstp.SetupLength+1)
	for {
		n, from, err := s.conn.Read(buf)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			reading.Failed(ctx, err)
		default:
			reading.Worked()
			accept.Guard(s.Note, "client "+from.String(), func() { s.take(ctx, buf[:n], from) })
		}
	}
}

// take handles a datagram to the server's port.
func (s *server) take(ctx context.Context, b []byte, from netip.AddrPort) {
	setup, err := udpstp.ParseSetup(b)
	if err != nil || setup.Answer { // answering it would make two servers talk forever
		return
	}
	id := flowID{from, setup.Ident, setup.Index}
	s.mu.Lock()
	n, again := s.waiting[id]
	s.mu.Unlock()
	if !again {
		keys, refused := s.judge(setup, b)
		if refused == nil {
			n, refused = s.admit(ctx, id, setup, keys)
		}
		if refused != nil {
			s.note("refused %v: %v", plainPort(from), refused.why)
			s.answer(setup, keys, refused.Response, 0, from)
			return
		}
	}
	// The Null PDU goes first: after an activation obudpst takes it for a broken load PDU.
	if setup.Version >= udpstp.Version && !again {
		null := udpstp.AppendNull(nil, setup.Version, setup.Authenticated)
		n.sign(null)
		_, _ = n.conn.WriteToUDPAddrPort(null, from) // it only opens a firewall
	}
	s.answer(n.Setup, n.keys, udpstp.Accepted, uint16(n.conn.LocalAddr().(*net.UDPAddr).Port), from)
}

// note logs a line about clients whose address may be forged, at most one per noteEvery.
func (s *server) note(format string, args ...any) {
	s.mu.Lock()
	soon := time.Since(s.logged) < noteEvery
	if !soon {
		s.logged = time.Now()
	}
	s.mu.Unlock()
	if !soon {
		s.Note(fmt.Sprintf(format, args...))
	}
}

// answer responds to a Setup request.
func (s *server) answer(setup udpstp.Setup, keys udpstp.Keys, r udpstp.Response, port uint16, to netip.AddrPort) {
	setup.Answer, setup.Response, setup.Port = true, r, port
	if r == udpstp.OtherVersion {
		setup.Version = udpstp.Version
	}
	b := setup.Append(nil)
	if keys.Server != nil && setup.Version >= udpstp.Version {
		udpstp.Sign(b, keys.Server, setup.Key, uint32(time.Now().Unix()))
	}
	_ = s.conn.Send(b, s.conn.Asked(), to) // if it is lost the client asks again
}

// sign signs a PDU for the client.
func (n *newcomer) sign(pdu []byte) {
	if n.keys.Server != nil && n.Version >= udpstp.Version {
		udpstp.Sign(pdu, n.keys.Server, n.Key, uint32(time.Now().Unix()))
	}
}

// refusal is the reason for refusing a Setup request.
type refusal struct {
	udpstp.Response
	why error
}

// judge checks a Setup request, and returns the keys of its test.
func (s *server) judge(setup udpstp.Setup, b []byte) (keys udpstp.Keys, refused *refusal) {
	r := udpstp.Response(0)
	switch {
	case setup.Version < udpstp.Oldest || setup.Version > udpstp.Version:
		r = udpstp.OtherVersion
	case setup.Count == 0 || setup.Count > udpstp.MaxFlows || setup.Index >= setup.Count:
		r = udpstp.BadFlows
	case setup.Authenticated == 0 && s.keys != nil:
		r = udpstp.AuthRequired
	case setup.Authenticated != 0 && s.keys == nil:
		r = udpstp.AuthNotConfigured
	case setup.Authenticated > 1:
		r = udpstp.AuthMode
	case s.keys == nil && int(setup.Index) >= budget.AnonymousRun().Streams:
		r = udpstp.NoFlowLeft
	}
	if r == 0 && setup.Authenticated == 1 {
		shared, known := s.keys[setup.Key]
		keys = udpstp.Derive(shared, setup.Version, setup.Time)
		switch err := udpstp.Verify(b, keys.Client, time.Now()); {
		case !known || errors.Is(err, udpstp.ErrSignature):
			r, keys = udpstp.AuthFailed, udpstp.Keys{}
		case err != nil:
			r = udpstp.AuthTime
		}
	}
	if r != 0 {
		return keys, &refusal{r, r}
	}
	return keys, nil
}

// admit opens the socket of a flow, on which it waits for the activation.
func (s *server) admit(ctx context.Context, id flowID, setup udpstp.Setup, keys udpstp.Keys) (*newcomer, *refusal) {
	if keys.Client == nil { // a shared session without an address, which forgers cannot exhaust, shows whether one is free
		if share, err := s.Budget.Open(netip.Addr{}, ""); err != nil {
			return nil, &refusal{udpstp.CapacityExceeded, err}
		} else {
			share.Close()
		}
	}
	network, host := "udp4", ""
	if id.from.Addr().Is6() && !id.from.Addr().Is4In6() {
		network = "udp6"
	}
	if asked := s.conn.Asked().Addr; asked.IsValid() {
		host = asked.WithZone(id.from.Addr().Zone()).String()
	}
	conn, err := new(net.ListenConfig).ListenPacket(ctx, network, net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, &refusal{udpstp.NoFlowLeft, err}
	}
	n := &newcomer{Setup: setup, from: plainPort(id.from), conn: conn.(*net.UDPConn), keys: keys}
	n.place = s.unknown.Enter(id.from.Addr(), func() { _ = conn.Close() })
	s.mu.Lock()
	s.waiting[id] = n
	s.mu.Unlock()
	s.running.Go(func() {
		defer func() { _ = conn.Close() }()
		accept.Guard(s.Note, "client "+id.from.String(), func() {
			b, from := n.wait(ctx, cmp.Or(s.patience, udpstp.Silence))
			s.mu.Lock()
			delete(s.waiting, id)
			s.mu.Unlock()
			if left := n.place.Leave(); b != nil && left {
				s.begin(ctx, n, b, from)
			}
		})
	})
	return n, nil
}

// wait returns the activation and its source; nil if none arrives.
func (n *newcomer) wait(ctx context.Context, patience time.Duration) ([]byte, netip.AddrPort) {
	defer context.AfterFunc(ctx, func() { _ = n.conn.SetReadDeadline(time.Unix(1, 0)) })()
	if n.conn.SetReadDeadline(time.Now().Add(patience)) != nil {
		return nil, netip.AddrPort{}
	}
	for buf := make([]byte, mostLoad+1); ctx.Err() == nil; {
		size, from, err := n.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			break
		}
		b := buf[:size]
		// The port may differ: NAT chooses one for each server port.
		if plain(from.Addr()) != n.from.Addr() || notActivation(b, n.Version) {
			continue
		}
		if n.keys.Client == nil || n.Version < udpstp.Version || udpstp.Verify(b, n.keys.Client, time.Now()) == nil {
			return slices.Clone(b), from
		}
	}
	return nil, netip.AddrPort{}
}

// notActivation reports whether b is not an activation of that version.
func notActivation(b []byte, version uint16) bool {
	_, err := udpstp.ParseActivation(b, version)
	return err != nil
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func plainPort(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(plain(a.Addr()), a.Port()) }

// who returns the login of a test; "" is an anonymous client.
func (n *newcomer) who() string {
	if n.keys.Client == nil {
		return ""
	}
	return Name + "-" + strconv.Itoa(int(n.Key))
}

// begin answers an activation and measures.
func (s *server) begin(ctx context.Context, n *newcomer, b []byte, from netip.AddrPort) {
	a, err := udpstp.ParseActivation(b, n.Version)
	if err != nil {
		return
	}
	t, one, done, err := s.join(n, &a, from)
	if err != nil {
		a.Response = udpstp.ActivationBad
	} else {
		a.Response = udpstp.ActivationOK
	}
	a.Version, a.Mode = n.Version, n.Authenticated
	reply := a.Append(nil)
	n.sign(reply)
	if _, werr := n.conn.WriteToUDPAddrPort(reply, from); err == nil {
		err = werr
	}
	if t == nil {
		s.Tell(program.Event{Test: program.Test{From: plain(from.Addr()), Key: n.who(), Err: err}, Port: from.Port(), Over: true})
		return
	}
	if err == nil {
		one.load.takes(udpstp.SetupLength + len(b))
		one.load.credit -= udpstp.SetupLength + udpstp.NullLength + len(reply)
		one.open()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if ends := t.share.Ends(); !ends.IsZero() {
			var stop context.CancelFunc
			ctx, stop = context.WithDeadlineCause(ctx, ends, budget.ErrOver)
			defer stop()
		}
		err = one.run(ctx, nil)
	}
	done(err)
}

// limit returns the highest row of the table for a flow of n, and its rate, 0 if unlimited.
func (n *newcomer) limit(of budget.Limits) (row int, most units.BitRate) {
	rate := units.BitRate(math.Inf(1))
	if n.keys.Client == nil {
		rate = budget.AnonymousRun().UDP
	}
	if of.UDP != 0 {
		rate = min(rate, max(of.UDP, 0))
	}
	rate /= units.BitRate(n.Count)
	if n.Bandwidth > 0 { // of this flow
		rate = min(rate, units.BitRate(n.Bandwidth)*1e6)
	}
	if math.IsInf(float64(rate), 1) {
		return udpstp.Rows - 1, 0
	}
	row = udpstp.RowOf(rate, n.Jumbo, n.Traditional)
	return row, udpstp.Row(row, n.Jumbo, n.Traditional).IPRate()
}
