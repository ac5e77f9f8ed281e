package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/sockio"
)

// defaultDatagram fits an Ethernet frame of 1500 bytes with IPv6, or with IPv4 and options: the
// size that a real client determines there.
const defaultDatagram = 1448

const (
	// greetingPatience is the timeout of the answer to a greeting, and greetingTries how often
	// a test is restarted for one.
	greetingPatience = 2 * time.Second
	greetingTries    = 3
	// greetingNoise is how many other datagrams may arrive before it: data of a stream that
	// already sends.
	greetingNoise = 1000
)

// errGreetingLost reports that the server did not answer over UDP.
var errGreetingLost = errors.New("the server does not answer over UDP: it is blocked on the way, or a datagram was lost")

// validateUDP reports the faults of a udpflow flow.
func validateUDP(f model.Flow) error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(len(f.Direction.Parts()) > 0, "direction %q is none of to, from, both", f.Direction)
	check(f.Duration > 0 || f.Bytes > 0, "neither duration nor bytes given")
	check(f.Duration == 0 || f.Bytes == 0, "duration and bytes exclude each other")
	check(f.Omit == 0 || f.Bytes == 0, "omit and bytes exclude each other: every byte is counted")
	check(f.Duration >= 0 && f.Omit >= 0 && f.Bytes >= 0 && f.Streams >= 0, "a negative duration, count or number of streams")
	check(f.Interval == 0 || f.Interval >= 10*time.Millisecond, "interval %v is shorter than 10ms", f.Interval)
	u, datagrams := udp.Of(f)
	check(datagrams == (f.Engine == udp.Name), "parameters of %s that cannot be read", f.Engine)
	check(u.Rate >= 0, "rate %v is negative", u.Rate)
	switch u.Pacing {
	case "", udp.PacingClock, udp.PacingKernel:
	default:
		check(false, "pacing %q is none of clock, kernel", u.Pacing)
	}
	return errors.Join(faults...)
}

// paramsUDP sets the UDP parameters.
func paramsUDP(p *iperf3.Params, f model.Flow) {
	p.Protocol = iperf3.UDP
	p.Length = int64(cmp.Or(f.Block, defaultDatagram))
	p.WideCounters = true // fast tests exceed 32 bits
	p.MSS, p.Congestion = 0, ""
	if u, ok := udp.Of(f); ok {
		p.BitsPerSecond = perStream(u.Rate, f.Streams)
	}
}

// openUDP opens l's streams at the client: a socket each, greeted once.
func (t *clientTest) openUDP(ctx context.Context, l *way) error {
	var conns []*net.UDPConn
	var err error
	for range l.streams {
		var c *net.UDPConn
		if c, err = t.greet(ctx); err != nil {
			break
		}
		conns = append(conns, c)
	}
	if err != nil {
		for _, c := range conns {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	return l.useUDP(model.Near, conns, t.params, false)
}

// useUDP creates l's test from the sockets.
func (l *way) useUDP(host model.Host, conns []*net.UDPConn, p iperf3.Params, open bool) error {
	test, err := prepareUDP(l, host, conns, p, open)
	if err != nil {
		return err
	}
	l.test, l.udp, l.account = test, test, test.account
	return nil
}

// greet opens one UDP stream.
func (t *clientTest) greet(ctx context.Context) (*net.UDPConn, error) {
	c, err := sockio.Dial(ctx, net.Dialer{}, "udp", t.ctl.conn.RemoteAddr().String(), engine.SocketOptions{Egress: t.Egress})
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("dialled a %T", c), c.Close())
	}
	if err := t.exchangeGreeting(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (t *clientTest) exchangeGreeting(ctx context.Context, conn *net.UDPConn) error {
	if err := conn.SetDeadline(time.Now().Add(cmp.Or(t.limits.greeting, greetingPatience))); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := conn.Write(iperf3.Hello()); err != nil {
		return fmt.Errorf("greet over UDP: %w", err)
	}
	b := make([]byte, iperf3.MaxDatagram)
	for range greetingNoise {
		n, err := conn.Read(b)
		switch {
		case err != nil && isTimeout(err):
			return errGreetingLost
		case err != nil:
			return fmt.Errorf("wait for the greeting over UDP: %w", err)
		case iperf3.IsReply(b[:n]):
			return conn.SetDeadline(time.Time{})
		}
	}
	return errGreetingLost
}

// farUDP summarises the other end's results of a UDP direction with datagrams of size bytes.
// role is that of the other end.
func farUDP(theirs []iperf3.StreamResult, role model.Role, size units.Bytes) *model.UDPSummary {
	out := &model.UDPSummary{}
	var jitter float64
	for _, s := range theirs {
		// Before 3.14 the counts of datagrams include the warm-up; bytes never do.
		n := max(s.Bytes, 0) / int64(max(size, 1))
		if role == model.Sender {
			out.Sent += n
			continue
		}
		out.Received += n
		out.Lost += max(0, s.Errors-s.Omitted.Or(iperf3.Omitted{}).Errors)
		jitter += s.Jitter
	}
	if role == model.Sender {
		return out
	}
	// Versions before 3.8 have reported centuries.
	if mean := jitter / float64(max(len(theirs), 1)); mean >= 0 && mean < 3600 {
		out.Jitter = fact.Known(time.Duration(mean*float64(time.Second)), fromPeer)
	} else {
		out.Jitter = fact.Unknown[time.Duration]("the iperf3 peer reports an impossible one")
	}
	return out
}
