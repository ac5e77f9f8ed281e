package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/program"
	"linerate/internal/measure/run"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/udpstp"
	"linerate/internal/panics"
)

// client measures with a server at an address.
type client struct {
	addr      string
	algorithm udpstp.Algorithm
	secret    string // the shared key; "" without one
	key       uint8  // its number

	version  uint16        // initial version; 0 is the newest
	patience time.Duration // timeout of the server; 0 is the protocol's
}

// ErrSilent reports that nothing arrived from the server.
var ErrSilent = errors.New("no answer: nothing came back")

const (
	answerDue = time.Second // after which a request is sent again
	// mostChanges is how many server settings the client learns from refusals: version, jumbo,
	// size of packets.
	mostChanges = 3
)

// request is the test that a client requests.
type request struct {
	udpstp.Setup
	of   udpstp.Activation
	keys udpstp.Keys
	unix uint32
}

// run measures in the direction of f, whose length must be whole seconds, at a fixed rate of
// the table if rate is not 0.
func (c client) run(ctx context.Context, f model.Flow, rate units.BitRate, host program.Near, emit func([]model.Sample)) (near, far model.EndReport, err error) {
	server, err := resolve(ctx, c.addr, host.Egress)
	if err != nil {
		return near, far, err
	}
	upstream, count := f.Direction == model.To, max(f.Streams, 1)
	r := request{Setup: udpstp.Setup{
		Version: cmp.Or(c.version, udpstp.Version), Count: uint8(count), Ident: uint16(1 + rand.N(0xffff)), Upstream: upstream, Jumbo: true, Key: c.key,
	}, of: udpstp.Defaults()}
	r.of.Upstream, r.of.Algorithm, r.of.Length = upstream, c.algorithm, f.Omit+f.Duration
	if f.Interval > 0 {
		r.of.Period = min(max(f.Interval.Round(time.Millisecond), udpstp.MinPeriod), udpstp.MaxPeriod)
	}
	var flows []*flow
	defer func() {
		for _, one := range flows {
			_ = one.conn.Close() // everything has been sent
		}
	}()
	ipv6 := server.Addr().Is6() && !server.Addr().Is4In6()
	t := newTally(f.Direction, ipv6, f.Omit, count, emit)
	var mu sync.Mutex
	for i := range count {
		one := &flow{peer: server, patience: c.patience}
		if one.conn, err = openSocket(ctx, ipv6, host.Egress); err != nil {
			return near, far, fmt.Errorf("open a socket for %s: %w", server, err)
		}
		flows = append(flows, one)
		one.ended = func(s udpstp.SubInterval, sent amount) {
			mu.Lock()
			defer mu.Unlock()
			t.add(i, s, sent)
		}
	}
	// The first one learns the server's version and settings.
	if err := c.setUp(ctx, flows[0], &r, 0); err != nil {
		return near, far, err
	}
	host.Met()
	if rate > 0 {
		r.of.Index = uint16(udpstp.RowOf(rate/units.BitRate(count), r.Jumbo, r.Traditional))
	}
	began, open := time.Now(), run.ReadEdge(0)
	if err := each(ctx, flows, func(ctx context.Context, i int, one *flow) error {
		own := r
		if i > 0 {
			if err := c.setUp(ctx, one, &own, i); err != nil {
				return err
			}
		}
		first, err := c.activate(ctx, one, own)
		if err != nil {
			return err
		}
		return one.run(ctx, first)
	}); err != nil {
		return near, far, err
	}
	run.Fill(&near, open, run.ReadEdge(time.Since(began)))
	got, values := t.received(leastRTT(flows))
	if upstream {
		near.Flows = []model.FlowReport{t.sent()}
		far.Flows, far.Values = []model.FlowReport{got}, values
	} else {
		near.Flows, near.Values = []model.FlowReport{got}, values
	}
	if at, held := t.held(flows[0].of.Low); held && rate == 0 {
		far.Warnings = append(far.Warnings, fmt.Sprintf("the search stayed at %s although nothing was lost or delayed: the server, or its limit for a test, may hold it there, and the path carry more", units.BitRate(at)))
	}
	if of := flows[0].of; rate > 0 && of.Index < r.of.Index {
		most := udpstp.Row(int(of.Index), r.Jumbo, r.Traditional).IPRate() * units.BitRate(count)
		far.Warnings = append(far.Warnings, fmt.Sprintf("the server limits a test to %s of IP packets, so it did not carry the rate asked for", most))
	}
	if length := flows[0].of.Length; length < r.of.Length {
		far.Warnings = append(far.Warnings, fmt.Sprintf("the server measures for at most %s", units.FormatDuration(length)))
	}
	return near, far, nil
}

// each calls f for all flows at once. The first error ends all of them.
func each(ctx context.Context, flows []*flow, f func(ctx context.Context, i int, one *flow) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all panics.Group
	for i, one := range flows {
		all.Go(func() {
			if err := f(ctx, i, one); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// resolve returns the server's address, in a family that egress o allows.
func resolve(ctx context.Context, addr string, o model.Egress) (netip.AddrPort, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, &net.OpError{Op: "dial", Net: "udp", Err: err}
	}
	from, err := netip.ParseAddr(o.Bind)
	for _, a := range all {
		if a = a.Unmap(); err != nil || a.Is4() == from.Is4() {
			return netip.AddrPortFrom(a, uint16(port)), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("%s has no address of the family of %s", host, o.Bind)
}

// openSocket opens the socket of one flow. It is not connected: the server answers from two
// ports.
func openSocket(ctx context.Context, ipv6 bool, o model.Egress) (*net.UDPConn, error) {
	network := "udp4"
	if ipv6 {
		network = "udp6"
	}
	lc := net.ListenConfig{Control: sockio.ControlEgress(o)}
	return sockio.FromPorts(o.From, func(port int) (*net.UDPConn, error) {
		c, err := lc.ListenPacket(ctx, network, net.JoinHostPort(o.Bind, strconv.Itoa(port)))
		if err != nil {
			return nil, err
		}
		return c.(*net.UDPConn), nil
	})
}

// exchange repeats a PDU until take accepts a datagram from the peer's host.
func exchange(ctx context.Context, f *flow, pdu []byte, take func(b []byte, from netip.AddrPort) bool) error {
	defer context.AfterFunc(ctx, func() { _ = f.conn.SetReadDeadline(time.Unix(1, 0)) })()
	buf := make([]byte, mostLoad+1)
	for began := time.Now(); ctx.Err() == nil && time.Since(began) < cmp.Or(f.patience, udpstp.Silence); {
		if err := f.write(pdu); err != nil {
			return fmt.Errorf("send to %s: %w", f.peer, err)
		}
		for until := time.Now().Add(answerDue); ctx.Err() == nil; {
			if err := f.conn.SetReadDeadline(until); err != nil {
				return err
			}
			n, from, err := f.conn.ReadFromUDPAddrPort(buf)
			from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
			if err == nil && from.Addr() == f.peer.Addr() && !udpstp.IsNull(buf[:n]) && take(buf[:n], from) {
				return nil
			}
			if !time.Now().Before(until) {
				break
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return ErrSilent
}

// setUp requests flow i. For the first one it adapts r to the server's refusals.
func (c client) setUp(ctx context.Context, f *flow, r *request, i int) error {
	for range mostChanges + 1 {
		s := r.Setup
		s.Index = uint8(i)
		pdu := s.Append(nil)
		if c.secret != "" {
			r.unix = uint32(time.Now().Unix())
			r.keys = udpstp.Derive(c.secret, s.Version, r.unix)
			udpstp.Sign(pdu, r.keys.Client, c.key, r.unix)
		}
		var answer udpstp.Setup
		var forged error
		err := exchange(ctx, f, pdu, func(b []byte, from netip.AddrPort) bool {
			a, err := udpstp.ParseSetup(b)
			if err != nil || !a.Answer || from.Port() != f.peer.Port() || a.Ident != s.Ident || a.Index != s.Index {
				return false
			}
			if answer = a; a.Response == udpstp.Accepted && c.secret != "" && s.Version >= udpstp.Version {
				forged = udpstp.Verify(b, r.keys.Server, time.Now())
			}
			return true
		})
		if err != nil {
			return err
		}
		if forged != nil {
			return fmt.Errorf("the server's answer: %w", forged)
		}
		switch {
		case answer.Response == udpstp.Accepted:
			f.peer = netip.AddrPortFrom(f.peer.Addr(), answer.Port)
			f.version, f.jumbo, f.regular = r.Version, r.Jumbo, r.Traditional
			return nil
		case i > 0:
			return answer.Response
		case answer.Response == udpstp.OtherVersion && answer.Version != r.Version && answer.Version >= udpstp.Oldest && answer.Version <= udpstp.Version:
			r.Version = answer.Version
		case answer.Response == udpstp.OtherJumbo:
			r.Jumbo = !r.Jumbo
		case answer.Response == udpstp.OtherTraditional:
			r.Traditional = !r.Traditional
		default:
			return answer.Response
		}
	}
	return errors.New("the server refuses each version and each size of packets")
}

// activate starts a flow. It returns a load PDU that arrived in place of the response.
func (c client) activate(ctx context.Context, f *flow, r request) (first []byte, err error) {
	a := r.of
	if a.Version = r.Version; a.Version < udpstp.Version { // whole seconds
		a.Period = max(a.Period.Round(time.Second), time.Second)
	}
	pdu := a.Append(nil)
	if c.secret != "" && a.Version >= udpstp.Version {
		udpstp.Sign(pdu, r.keys.Client, c.key, uint32(time.Now().Unix()))
		a.Mode = 1
	}
	var forged error
	answer := a
	err = exchange(ctx, f, pdu, func(b []byte, from netip.AddrPort) bool {
		if from.Port() != f.peer.Port() {
			return false
		}
		if _, err := udpstp.ParseLoad(b); err == nil && !a.Upstream { // the response was lost
			first, answer.Response = slices.Clone(b), udpstp.ActivationOK
			return true
		}
		got, err := udpstp.ParseActivation(b, a.Version)
		if err != nil || got.Response == 0 || got.Upstream != a.Upstream {
			return false
		}
		if answer = got; a.Mode != 0 {
			forged = udpstp.Verify(b, r.keys.Server, time.Now())
		}
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case forged != nil:
		return nil, fmt.Errorf("the server's answer: %w", forged)
	case answer.Response != udpstp.ActivationOK:
		return nil, fmt.Errorf("the server does not accept the test (code %d)", answer.Response)
	case a.Upstream && answer.Rate.Validate() != nil:
		return nil, answer.Rate.Validate()
	}
	f.load.rate = answer.Rate
	f.of = answer.Policed(a.Length, udpstp.Rows-1)
	f.of.Mode = a.Mode
	f.load.proved = true
	f.open()
	return first, nil
}
