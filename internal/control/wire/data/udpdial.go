package data

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

const (
	greetEvery = 100 * time.Millisecond // between greetings of one socket
	// elsewhere is how many greetings go to a port that an answer came from if that is not the
	// one announced over the rendezvous: as much as RFC 9000 section 8 allows.
	elsewhere = 3
)

// DialUDP opens the run's UDP sockets first…first+n-1, connected to the acceptor at the other
// end of the rendezvous, which calls Sockets.Take. The sockets send from where o says.
func DialUDP(ctx context.Context, rendezvous *net.TCPConn, token Token, first, n int, o model.Egress) ([]*net.UDPConn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { _ = rendezvous.SetDeadline(time.Unix(1, 0)) })()
	var port [2]byte
	if _, err := io.ReadFull(rendezvous, port[:]); err != nil {
		return nil, fmt.Errorf("open UDP sockets: %w", said(err))
	}
	d := dialer{
		token: token, local: host(rendezvous.LocalAddr()), egress: o,
		to: netip.AddrPortFrom(host(rendezvous.RemoteAddr()), binary.BigEndian.Uint16(port[:])),
	}
	for i := 0; i < len(d.secret); i += nonceBytes {
		part := newNonce()
		copy(d.secret[i:], part[:])
	}
	theirs := make(chan []byte, 1)
	listening.Go(panics.From(cancel, func() {
		b, err := hear(rendezvous, n)
		if err != nil {
			cancel(err) // the first error counts
		}
		theirs <- b
	}))
	made, err := d.openAll(ctx, cancel, first, n)
	if err == nil {
		err = agree(ctx, rendezvous, made, theirs)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(err) // ends the other listeners
		closeUDP(made.conns)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer from UDP port %v: does a firewall let UDP through? %w", d.to, err)
		}
		return nil, fmt.Errorf("open UDP sockets: %w", err)
	}
	return made.conns, nil
}

// dialed are a connector's sockets, with the nonces that both ends have sent by UDP.
type dialed struct {
	conns        []*net.UDPConn
	mine, theirs []nonce
}

// agree sends the acceptor its nonces, and waits for the connector's own.
func agree(ctx context.Context, rendezvous io.Writer, made dialed, theirs <-chan []byte) error {
	if _, err := rendezvous.Write(agreed(made.theirs)); err != nil {
		return err
	}
	select {
	case b := <-theirs:
		return prove(b, made.mine)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// dialer opens the sockets of a connector.
type dialer struct {
	token  Token
	secret [sha256.Size]byte // key from which nonces are derived
	local  netip.Addr        // that of the rendezvous, on hosts with several addresses
	egress model.Egress
	to     netip.AddrPort // where greetings go
}

// nonce returns the nonce that socket index sends to one address only.
func (d *dialer) nonce(index int, to netip.AddrPort) (n nonce) {
	h := hmac.New(sha256.New, d.secret[:])
	_, _ = fmt.Fprintf(h, "%d %v", index, to) // never fails
	copy(n[:], h.Sum(nil))
	return n
}

// openAll opens n sockets. It opens the first one alone and the others after its answer, so that
// little is sent to an address without a peer.
func (d *dialer) openAll(ctx context.Context, cancel context.CancelCauseFunc, first, n int) (dialed, error) {
	made := dialed{make([]*net.UDPConn, n), make([]nonce, n), make([]nonce, n)}
	open := func(i int) {
		if err := d.open(ctx, first+i, &made, i); err != nil {
			cancel(err)
		}
	}
	open(0)
	var all sync.WaitGroup
	for i := 1; i < n && ctx.Err() == nil; i++ {
		all.Go(panics.From(cancel, func() { open(i) }))
	}
	all.Wait()
	return made, context.Cause(ctx)
}

// open greets until it gets an answer, then connects to the sender of the answer.
func (d *dialer) open(ctx context.Context, index int, made *dialed, i int) error {
	network := udpNetwork(d.to.Addr())
	lc := net.ListenConfig{Control: sockio.ControlEgress(d.egress)}
	l, err := sockio.FromPorts(d.egress.From, func(port int) (net.PacketConn, error) {
		return lc.ListenPacket(ctx, network, netip.AddrPortFrom(d.local, uint16(port)).String())
	})
	if err != nil {
		return err
	}
	c := l.(*net.UDPConn)
	from, theirs, err := d.greetUntilAnswered(ctx, c, index)
	local := c.LocalAddr().(*net.UDPAddr)
	_ = c.Close()
	if err != nil {
		return err
	}
	made.mine[i], made.theirs[i] = d.nonce(index, from), theirs
	// The same port again, which the other end and every NAT already know.
	again := net.Dialer{LocalAddr: local, Control: sockio.ControlEgress(d.egress)}
	conn, err := again.DialContext(ctx, network, from.String())
	if err != nil {
		return err
	}
	made.conns[i] = conn.(*net.UDPConn)
	return nil
}

// greetUntilAnswered greets the acceptor until it answers from the address that was greeted. An
// acceptor whose system cannot share the port answers from another port, which then gets a few
// greetings.
func (d *dialer) greetUntilAnswered(ctx context.Context, c *net.UDPConn, index int) (netip.AddrPort, nonce, error) {
	to := d.to
	for tries := 0; ; tries++ {
		if err := context.Cause(ctx); err != nil {
			return netip.AddrPort{}, nonce{}, err
		}
		if to != d.to && tries == elsewhere {
			to = d.to
		}
		// A full queue, or "port unreachable" for the greeting before, is no reason to give up;
		// the context is.
		_, _ = c.WriteToUDPAddrPort(greet(d.token, index, d.nonce(index, to)), to)
		from, theirs, err := d.await(c, index, to)
		switch {
		case err != nil:
			return netip.AddrPort{}, nonce{}, err
		case from == to:
			return from, theirs, nil
		case from.IsValid():
			to, tries = from, -1
		}
	}
}

// await waits for an answer or the time of the next greeting. Without an answer, from is the
// zero value.
func (d *dialer) await(c *net.UDPConn, index int, to netip.AddrPort) (from netip.AddrPort, theirs nonce, err error) {
	if err := c.SetReadDeadline(time.Now().Add(greetEvery)); err != nil {
		return from, theirs, err
	}
	var b [answerSize + 1]byte
	for {
		n, from, err := c.ReadFromUDPAddrPort(b[:])
		if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
			return netip.AddrPort{}, nonce{}, nil
		}
		if err != nil {
			continue // caused by an earlier greeting
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if !sameHost(from.Addr(), d.to.Addr()) {
			continue // from another host than the rendezvous: another run's, or a forged one
		}
		from = netip.AddrPortFrom(d.to.Addr(), from.Port())
		if theirs, ok := readAnswer(b[:n], d.token, index, d.nonce(index, to)); ok {
			return from, theirs, nil
		}
	}
}
