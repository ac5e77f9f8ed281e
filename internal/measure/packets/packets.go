// Package packets finds the largest IP packet that passes from one end of a session to the
// other, with datagrams that must not be fragmented.
//
// A run goes like this (diagnosis.md sections 6.3 and 6.4):
//
//  1. Prepare opens one TCP connection, the line, and one pair of UDP sockets. The sender of
//     the direction sends a key on the line.
//  2. For each size the sender sends one datagram of that size and one small one at the same
//     time. The receiver reports on the line which arrived, their size, and their ECN mark. The
//     line carries a few bytes at a time, so that the reports get through where large packets
//     do not.
//  3. A size counts as lost after several tries in which only the small datagram arrived.
//     Package core/mtu chooses the next size.
//
// Each direction is a run of its own: reports return over TCP, in small packets
// (docs/wire/packets.md).
package packets

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/packets"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/hops"
	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

// Name is the engine's name in plans and on the wire.
const Name = packets.Name

// The wire format (docs/wire/packets.md).
const (
	magic     = "lr-pkts1"
	keyLen    = 16
	headerLen = len(magic) + keyLen + 4 // then the number of the probe
	answerLen = 9                       // number, size of the datagram, byte of marks
	mostBytes = 65535                   // of an IP packet
	// Sizes of the headers of IPv4 (RFC 791), IPv6 (RFC 8200) and UDP (RFC 768).
	header4, header6, headerUDP = 20, 40, 8
)

// Engine finds the packet size. It is safe for concurrent use.
type Engine struct{}

// New returns the engine.
func New() *Engine { return &Engine{} }

// Name returns "packets".
func (*Engine) Name() string { return Name }

// Kind returns the engine's metadata.
func (*Engine) Kind() traffic.Kind { return packets.Kind() }

// Validate reports every fault of f at once, joined. The direction is to or from; the run ends
// by itself, so that it has neither duration nor warm-up.
func (*Engine) Validate(f model.Flow) error {
	var faults engine.Faults
	faults.Engine(f, Name)
	faults.Lead(f)
	faults.Unless(f.Direction == model.To || f.Direction == model.From, "direction %q is neither to nor from", f.Direction)
	faults.Unless(f.Streams <= 1 && f.Block == 0 && f.MSS == 0 && f.Window == 0, "streams, blocks, segments and windows have no meaning for single packets")
	p := engine.Params[packets.Params](&faults, f)
	faults.Unless(p.Most >= probe.Small && p.Most <= mostBytes, "packets of %d bytes: not between %d and %d", p.Most, probe.Small, mostBytes)
	return faults.Err()
}

// Prepare opens the line and the sockets. The error wraps errors.ErrUnsupported if the path to
// the peer carries no datagrams, or this system cannot forbid fragmentation.
func (e *Engine) Prepare(ctx context.Context, env engine.Env, f model.Flow) (engine.Test, error) {
	if err := e.Validate(f); err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	}
	if env.OpenUDP == nil {
		return nil, fmt.Errorf("open udp sockets: %w: the way to the peer carries none", errors.ErrUnsupported)
	}
	opened, err := env.Open(ctx, 1, engine.SocketOptions{NoDelay: true})
	if err != nil {
		return nil, fmt.Errorf("open line: %w", err)
	}
	p, _ := traffic.Read[packets.Params](f.Params)
	t := &test{Life: engine.NewLife(), host: env.Host, direction: f.Direction, most: p.Most, line: opened.Conns[0], egress: env.Egress}
	if err := t.open(ctx, env); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// test is one end of a run.
type test struct {
	*engine.Life
	host      model.Host
	direction model.Direction
	most      int
	key       [keyLen]byte
	line      *net.TCPConn
	socket    *net.UDPConn
	egress    model.Egress // of the trace
	marked    bool         // this end's datagrams carry an ECN mark
}

// sends reports whether this end is the sender.
func (t *test) sends() bool { return t.direction.Sender() == t.host }

// open exchanges the key and opens the socket.
func (t *test) open(ctx context.Context, env engine.Env) error {
	stop := context.AfterFunc(ctx, func() { _ = t.line.SetDeadline(time.Unix(1, 0)) })
	err := t.greet()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("greet the other end: %w", err)
	}
	sockets, err := env.OpenUDP(ctx, 1)
	if err != nil {
		return fmt.Errorf("open udp socket: %w", err)
	}
	t.socket = sockets[0]
	if t.sends() {
		t.marked = sockio.SetMark(t.socket, ect0) == nil // if unset, a missing mark proves nothing
		return sockio.Uncut(t.socket)
	}
	_ = sockio.TellMarks(t.socket) // if unset, arriving marks are unknown
	return nil
}

func (t *test) greet() error {
	if t.sends() {
		_, _ = rand.Read(t.key[:]) // never fails
		_, err := t.line.Write(append([]byte(magic), t.key[:]...))
		return err
	}
	var b [len(magic) + keyLen]byte
	if _, err := io.ReadFull(t.line, b[:]); err != nil {
		return err
	}
	if string(b[:len(magic)]) != magic {
		return errors.New("it does not speak of packets")
	}
	copy(t.key[:], b[len(magic):])
	return nil
}

// overhead returns the bytes of IP and UDP headers.
func (t *test) overhead() int {
	if a, ok := t.socket.RemoteAddr().(*net.UDPAddr); ok && a.IP.To4() == nil {
		return header6 + headerUDP
	}
	return header4 + headerUDP
}

// Run tries sizes, or reports what arrived.
func (t *test) Run(ctx context.Context, _ func([]model.Sample)) (report model.EndReport, err error) {
	report.Host = t.host
	ctx, end, err := t.Begin(ctx)
	if err != nil {
		return report, err
	}
	defer end(&err)
	ctx, cancel := context.WithCancel(ctx)
	var stop panics.Group
	stop.Go(func() {
		select {
		case <-t.Stopping():
			cancel()
		case <-ctx.Done():
		}
	})
	defer stop.Wait()
	defer cancel()
	past := time.Unix(1, 0)
	defer context.AfterFunc(ctx, func() { _, _ = t.line.SetDeadline(past), t.socket.SetDeadline(past) })()
	if !t.sends() {
		return report, t.answer(ctx)
	}
	report.Values, report.Trace, err = t.try(ctx)
	return report, err
}

// trace returns how far packets of the largest size get, nil if unknown.
func (t *test) trace(ctx context.Context) *model.Trace {
	local, peer := t.socket.LocalAddr().(*net.UDPAddr).AddrPort(), t.socket.RemoteAddr().(*net.UDPAddr).AddrPort()
	found, err := hops.Sizes(ctx, hops.Config{Direction: t.direction, Local: local.Addr(), Peer: peer, Egress: t.egress, Fail: t.Fail}, t.most)
	if err != nil || found.Why != "" {
		return nil
	}
	return &found
}

// Close ends the test.
func (t *test) Close() error {
	return t.End(func() error {
		err := t.line.Close()
		if t.socket != nil {
			err = errors.Join(err, t.socket.Close())
		}
		return err
	})
}
