// Package datagram sends and receives UDP datagrams as fast, and as evenly, as
// the system allows, and counts what became of them.
//
// It knows no header: a Sender is given a function that stamps the header of
// each datagram into it, a Receiver one that reads it. Every engine and foreign
// protocol that speaks UDP builds on that. Each of them needs a thread of its
// own while it runs, so that the caller has package quiet make room for as many
// threads as Threads says.
//
// On Linux many datagrams cross into the kernel by one call, in trains that the
// kernel or the card cuts (UDP_SEGMENT, UDP_GRO) unless that is refused, and
// the calls are raw: the scheduler is not told. Elsewhere package net moves one
// datagram at a time.
package datagram

import (
	"cmp"
	"errors"
	"fmt"
	"net"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// MaxPayload is the most payload of a UDP datagram over IPv4 in bytes: the
// largest packet, 65535, less the headers of IP and UDP (RFC 791 section 3.1,
// RFC 768).
const MaxPayload = 65507

// Options say how a socket is used. The zero value asks for everything that
// the system has.
type Options struct {
	// Plain leaves segmentation and coalescing off: the kernel sees each
	// datagram by itself, at both ends.
	Plain bool
	// Portable goes through package net, as systems do that have no better way.
	Portable bool
	// SendBuffer is for SO_SNDBUF, in bytes; 0 leaves it to the system.
	SendBuffer units.Bytes
	// RecvBuffer is for SO_RCVBUF, in bytes; 0 is DefaultRecvBuffer. It is asked
	// for past the system's bound (SO_RCVBUFFORCE) where the process may.
	RecvBuffer units.Bytes
}

// DefaultRecvBuffer is the receive buffer asked for. UDP has no window: what
// does not fit is lost, and no autotuning is turned off by setting it. At
// 300,000 datagrams of 1472 bytes a second, which take 2304 bytes each, it
// bridges 0.1 s, twice that on Linux, which grants the double.
const DefaultRecvBuffer units.Bytes = 64 << 20

// ErrNobodyListens says that the peer's host answered again and again that
// there is no socket for the datagrams (ICMP port unreachable).
var ErrNobodyListens = errors.New("there is no listener any more")

// Conn is a connected UDP socket in the hands of this package. One goroutine
// may send and one receive at the same time; Close waits for neither, so both
// must have ended before.
type Conn struct {
	socket  socket
	plain   bool
	headers int // bytes of IP and UDP around the payload
}

// outcome says how a call into the kernel ended.
type outcome int

const (
	fine    outcome = iota
	again           // nothing moved in time: try again
	refused         // the kernel did not take the next datagram: no room, no route
	nobody          // the peer's host says that nobody listens
	uncut           // the kernel cannot cut trains here
	broken          // nothing will ever move again
)

// socket is a Conn in one way of talking to the kernel.
type socket interface {
	// threads is how many threads keep their processor while one loop runs.
	threads() int
	waiting() string
	write(b []byte) error
	poll(b []byte) (int, error)
	// prepareSend makes ready to send datagrams that lie in buf one behind the
	// other, each of size bytes.
	prepareSend(buf []byte, size int) transmitter
	// cuts reports whether trains of datagrams of size bytes can be sent.
	cuts(size int) bool
	// paceByKernel has the kernel hold datagrams back until their time.
	paceByKernel() (how string, err error)
	// prepareReceive makes ready for datagrams of up to size bytes, in trains
	// where wanted and possible.
	prepareReceive(size int, trains bool) collector
	interrupt()
	close() error
	pathMTU() fact.Of[int]
	recvBuffer() fact.Of[units.Bytes]
	dropped() fact.Of[int64]
}

// transmitter sends what lies in its buffer.
type transmitter interface {
	// send hands the first n datagrams to the kernel, as one train where cut is
	// true, and returns how many it took.
	send(n int, cut bool) (int, outcome, error)
	// sendAt is send for a socket that is paced by the kernel: datagram i
	// leaves at times[i] of the kernel's monotonic clock, ns.
	sendAt(times []int64) (int, outcome, error)
}

// collector receives into buffers of its own.
type collector interface {
	// receive returns how many pieces came, after at most patience where it
	// waits for the first.
	receive(wait bool) (int, outcome, error)
	// piece returns piece i. It holds several datagrams of length each, the
	// last one at most so long, where length is not 0. wall is when the kernel
	// took it from the link, ns since 1970, 0 where it does not say.
	piece(i int) (b []byte, each int, wall int64)
}

// Attach takes c over, which must be connected, also when it fails: c is closed
// then.
func Attach(c *net.UDPConn, o Options) (*Conn, error) {
	peer, ok := c.RemoteAddr().(*net.UDPAddr)
	if !ok || peer == nil {
		return nil, errors.Join(errors.New("take over udp socket: it is not connected"), c.Close())
	}
	headers := 40 + 8 // IPv6 (RFC 8200 section 3) and UDP
	if peer.IP.To4() != nil {
		headers = 20 + 8
	}
	o.RecvBuffer = cmp.Or(o.RecvBuffer, DefaultRecvBuffer)
	var s socket
	var err error
	if o.Portable {
		s, err = newPortable(c, o)
	} else {
		s, err = newNative(c, o, headers)
	}
	if err != nil {
		return nil, fmt.Errorf("take over udp socket: %w", err)
	}
	return &Conn{socket: s, plain: o.Plain, headers: headers}, nil
}

// Threads returns how many threads that keep their processor one loop, of a
// Sender or a Receiver, takes while it runs.
func (c *Conn) Threads() int { return c.socket.threads() }

// Waiting names how the loops wait for the kernel, for the report.
func (c *Conn) Waiting() string { return c.socket.waiting() }

// Write sends one datagram beside those of a Sender, without waiting for room.
func (c *Conn) Write(b []byte) error {
	if err := c.socket.write(b); err != nil {
		return fmt.Errorf("send datagram: %w", err)
	}
	return nil
}

// Poll receives one datagram into b, for who has no Receiver, and returns its
// length: 0 where there is none.
func (c *Conn) Poll(b []byte) (int, error) {
	n, err := c.socket.poll(b)
	if err != nil {
		return 0, fmt.Errorf("receive datagram: %w", err)
	}
	return n, nil
}

// Headers returns how many bytes of IP and UDP headers each datagram carries.
func (c *Conn) Headers() int { return c.headers }

// PathMTU returns the largest IP packet, in bytes, that the kernel believes to
// reach the peer; unknown where it does not tell.
func (c *Conn) PathMTU() fact.Of[int] { return c.socket.pathMTU() }

// RecvBuffer returns the receive buffer that was granted, in bytes as the kernel
// reports them: Linux counts its bookkeeping in and reports the double.
func (c *Conn) RecvBuffer() fact.Of[units.Bytes] { return c.socket.recvBuffer() }

// Dropped returns how many datagrams this host threw away since the socket was
// made because its receive buffer was full; unknown where the kernel does not
// count them per socket.
func (c *Conn) Dropped() fact.Of[int64] { return c.socket.dropped() }

// Close frees the socket. It may be called more than once.
func (c *Conn) Close() error {
	if err := c.socket.close(); err != nil {
		return fmt.Errorf("close udp socket: %w", err)
	}
	return nil
}
