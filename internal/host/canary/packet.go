package canary

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/host/knob/linkid"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

const (
	// closedPort is a port of traceroute's, on which no program should listen.
	closedPort = 33434
	// Header bytes of IPv4 (RFC 791) and IPv6 (RFC 8200), and of UDP and an ICMP echo
	// request, which are equal.
	header4, header6, header = 20, 40, 8
	maxHeader4               = 60 // with options
	// wait is how long one try waits for an answer.
	wait = 700 * time.Millisecond
)

// endpoint is an address to probe, and the egress of the packets to it.
type endpoint struct {
	netip.Addr
	from model.Egress
}

// dial opens a socket to a port of the endpoint.
func (e endpoint) dial(ctx context.Context, network string, port int) (net.Conn, error) {
	o := engine.SocketOptions{Egress: e.from}
	return sockio.Dial(ctx, net.Dialer{}, network, net.JoinHostPort(e.String(), strconv.Itoa(port)), o)
}

// errSilent reports a try without an answer.
var errSilent = errors.New("no answer in time")

// anyAnswer probes an address in all ways with packets of size bytes, which must not be
// fragmented, and returns the first answer. TCP starts with small packets only. The error is
// a *tooBig if a router or this host reported that, errSilent if there was no answer.
func anyAnswer(ctx context.Context, to endpoint, size int, wait time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	asks := []func() (string, error){
		func() (string, error) { return echo(ctx, to, size) },
		func() (string, error) { return refusedPort(ctx, to, size) },
	}
	if size <= probe.Small {
		for _, port := range []int{22, 80, 443} {
			asks = append(asks, func() (string, error) { return knock(ctx, to, port) })
		}
	}
	type answer struct {
		how string
		err error
	}
	answers := make(chan answer, len(asks))
	for _, ask := range asks {
		go func() {
			var a answer
			a.err = panics.Call(func() (err error) { a.how, err = ask(); return err })
			answers <- a
		}()
	}
	last := errSilent
	for range asks {
		a := <-answers
		if a.err == nil {
			return a.how, nil // the others end with ctx
		}
		big, isBig := errors.AsType[*tooBig](a.err)
		before, wasBig := errors.AsType[*tooBig](last)
		if isBig && (!wasBig || !before.router.IsValid()) {
			last = big // another probe may tell which router
			continue
		}
		if !wasBig && !errors.Is(a.err, errSilent) && !errors.Is(a.err, context.DeadlineExceeded) && !errors.Is(a.err, syscall.EPERM) && !errors.Is(a.err, syscall.EACCES) {
			last = a.err
		}
	}
	return "", last
}

// knock makes a TCP connection; a refusal is an answer too.
func knock(ctx context.Context, to endpoint, port int) (string, error) {
	c, err := to.dial(ctx, "tcp", port)
	if err == nil {
		_ = c.Close() // nothing was sent
		return fmt.Sprintf("TCP port %d accepts", port), nil
	}
	if refused(err) {
		return fmt.Sprintf("TCP port %d refuses", port), nil
	}
	return "", silent(err)
}

// refusedPort sends a datagram to a closed port. The system reports the returning ICMP
// message (RFC 1122 section 4.1.3.3) as an error of the socket. This needs no rights.
func refusedPort(ctx context.Context, to endpoint, size int) (string, error) {
	c, err := to.dial(ctx, "udp", closedPort)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := sockio.Uncut(c.(*net.UDPConn)); err != nil {
		return "", err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline) // a new socket takes one
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := hear(c); err != nil {
		return "", err
	}
	_, err = c.Write(make([]byte, size-headers(to)))
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if err == nil || refused(err) {
		return "UDP port refused", nil
	}
	if oversize(err) {
		return "", refusedBySize(c)
	}
	return "", silent(err)
}

// echo sends an echo request (RFC 792, RFC 4443 section 4.1) and waits for the reply. It
// needs the right to open a raw socket.
func echo(ctx context.Context, to endpoint, size int) (string, error) {
	network, local, request, reply := "ip4:icmp", "0.0.0.0", byte(8), byte(0)
	if to.Is6() {
		network, local, request, reply = "ip6:ipv6-icmp", "::", 128, 129
	}
	if to.from.Bind != "" {
		local = to.from.Bind
	}
	l := net.ListenConfig{Control: func(network, address string, c syscall.RawConn) error {
		return errors.Join(sockio.ControlUncut(network, address, c), sockio.ControlEgress(to.from)(network, address, c))
	}}
	c, err := l.ListenPacket(ctx, network, local)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline) // a new socket takes one
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	b := make([]byte, size-headers(to)+header)
	b[0] = request
	_, _ = rand.Read(b[4:min(len(b), 24)]) // identifier, number, and bytes to recognize it by; never fails
	if to.Is4() {                          // the system fills in the ICMPv6 checksum
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	if _, err := c.WriteTo(b, &net.IPAddr{IP: to.WithZone("").AsSlice(), Zone: to.Zone()}); err != nil {
		return "", silent(err)
	}
	in := make([]byte, len(b)+maxHeader4) // room for the IPv4 header
	for {
		n, from, err := c.ReadFrom(in)
		if err != nil {
			return "", silent(err)
		}
		if t := parseTooBig(in[:n], to.Is6(), addrOf(from), b); t != nil {
			return "", t
		}
		if n == len(b) && in[0] == reply && string(in[4:24]) == string(b[4:24]) {
			return "echo reply", nil
		}
	}
}

// addrOf returns the sender of an ICMP message.
func addrOf(a net.Addr) netip.Addr {
	if ip, ok := a.(*net.IPAddr); ok {
		if addr, ok := netip.AddrFromSlice(ip.IP); ok {
			return addr.Unmap()
		}
	}
	return netip.Addr{}
}

// refusedBySize returns the path MTU that the system learnt when it reports a datagram as too
// big. It does not say from which router.
func refusedBySize(c net.Conn) error {
	return &tooBig{mtu: sockio.PathMTU(c.(*net.UDPConn))}
}

// silent turns a timeout into errSilent.
func silent(err error) error {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return errSilent
	}
	return err
}

// headers returns the number of bytes of a UDP packet to an address that are not payload.
func headers(to endpoint) int {
	if to.Is6() {
		return header6 + header
	}
	return header4 + header
}

// checksum is the Internet checksum, RFC 1071.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// towards returns the interface that packets to an address leave by, as far as their source
// address tells.
func towards(ctx context.Context, to endpoint) (*net.Interface, error) {
	c, err := to.dial(ctx, "udp", closedPort)
	if err != nil {
		return nil, err
	}
	defer c.Close() // nothing was sent
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	return linkid.Owner(local.Addr())
}

// packetSize returns the largest IP packet that leaves for an address unfragmented.
func packetSize(ctx context.Context, to endpoint) (int, error) {
	i, err := towards(ctx, to)
	if err != nil {
		return 0, err
	}
	return max(probe.Small, min(i.MTU, 65535)), nil
}

// awaitLink waits until the interface to an address has its link back, which a change may
// have taken away for seconds, and until there is a route to the address.
func awaitLink(ctx context.Context, to endpoint, settle time.Duration) error {
	late := time.NewTimer(settle)
	defer late.Stop()
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		i, err := towards(ctx, to)
		if err == nil && i.Flags&net.FlagRunning != 0 {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%s has no link", i.Name)
		}
		select {
		case <-ctx.Done():
			return err
		case <-late.C:
			return err
		case <-again.C:
		}
	}
}
