// Package datagram sends and receives UDP datagrams as fast, and as evenly, as the system
// allows, and counts what became of them.
//
// It knows no header: a Sender calls a function that writes each datagram's header, a Receiver
// one that reads it. Every engine and foreign protocol over UDP builds on that. A running loop
// keeps threads busy: the caller has package goruntime make room for as many as Threads returns.
//
// On Linux one call passes many datagrams to the kernel, in trains that the kernel or the
// network card cuts (UDP_SEGMENT, UDP_GRO) unless Options turn that off. The calls are raw: the
// Go scheduler does not see them. Elsewhere package net moves one datagram at a time.
package datagram

import (
	"cmp"
	"errors"
	"fmt"
	"net"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// MaxPayload is the largest payload of a UDP datagram over IPv4 in bytes: the largest packet,
// 65535, minus the headers of IP and UDP (RFC 791 section 3.1, RFC 768).
const MaxPayload = 65507

// Options control how a socket is used. The zero value uses everything that the system offers.
type Options struct {
	// Plain leaves segmentation and coalescing off: the kernel sees each
	// datagram by itself, at both ends.
	Plain bool
	// Portable uses package net, as on systems without a native socket.
	Portable bool
	// SendBuffer is for SO_SNDBUF, in bytes; 0 leaves it to the system.
	SendBuffer units.Bytes
	// RecvBuffer is for SO_RCVBUF, in bytes; 0 is DefaultRecvBuffer. A process with the right
	// to do so exceeds the system's bound (SO_RCVBUFFORCE).
	RecvBuffer units.Bytes
}

// DefaultRecvBuffer is the receive buffer that a Conn requests. UDP has no window: what does
// not fit is lost, and setting the buffer turns off no autotuning. At 300,000 datagrams of 1472
// bytes a second, which take 2304 bytes each, it holds 0.1 s, twice that on Linux, which grants
// the double.
const DefaultRecvBuffer units.Bytes = 64 << 20

// ErrNoListener reports that the peer's host answered repeatedly that no socket receives the
// datagrams (ICMP port unreachable).
var ErrNoListener = errors.New("there is no listener any more")

// Conn is a connected UDP socket that this package owns. One goroutine may send and one receive
// at the same time; Close waits for neither, so both must have returned before.
type Conn struct {
	socket  socket
	plain   bool
	headers int // bytes of IP and UDP around the payload
}

// outcome is the result of a call into the kernel.
type outcome int

const (
	fine       outcome = iota
	again              // nothing moved in time: try again
	refused            // the kernel did not take the next datagram: no room, no route
	portClosed         // the peer's host reports that the port is closed
	uncut              // the kernel cannot cut trains here
	broken             // nothing will ever move again
)

// socket is one implementation of a Conn.
type socket interface {
	// threads returns how many threads one running loop keeps busy.
	threads() int
	waiting() string
	write(b []byte) error
	poll(b []byte) (int, error)
	// prepareSend prepares to send the datagrams of size bytes that lie in buf one after the
	// other.
	prepareSend(buf []byte, size int) transmitter
	// cuts reports whether trains of datagrams of size bytes can be sent.
	cuts(size int) bool
	// paceByKernel makes the kernel hold datagrams back until their time.
	paceByKernel() (how string, err error)
	// prepareReceive prepares for datagrams of up to size bytes, in trains if trains is true
	// and the kernel can join datagrams.
	prepareReceive(size int, trains bool) collector
	interrupt()
	close() error
	pathMTU() fact.Of[int]
	recvBuffer() fact.Of[units.Bytes]
	dropped() fact.Of[int64]
}

// transmitter sends the datagrams in its buffer.
type transmitter interface {
	// send passes the first n datagrams to the kernel, as one train if cut is true, and returns
	// how many it accepted.
	send(n int, cut bool) (int, outcome, error)
	// sendAt is send on a socket that the kernel paces: datagram i leaves at times[i] of the
	// kernel's monotonic clock, ns.
	sendAt(times []int64) (int, outcome, error)
}

// collector receives into buffers of its own.
type collector interface {
	// receive returns how many pieces arrived. If wait is true it waits for the first, for at
	// most patience.
	receive(wait bool) (int, outcome, error)
	// piece returns piece i. If each is not 0, the piece holds several datagrams of each bytes,
	// the last one at most that long. wall is when the kernel received it from the link, ns
	// since 1970; 0 is unknown.
	piece(i int) (b []byte, each int, wall int64)
}

// Attach takes over c, which must be connected. If it fails it closes c.
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

// Threads returns how many threads one running loop, of a Sender or a Receiver, keeps busy.
func (c *Conn) Threads() int { return c.socket.threads() }

// Waiting names how the loops wait for the kernel, for the report.
func (c *Conn) Waiting() string { return c.socket.waiting() }

// Write sends one datagram beside those of a Sender. It does not wait for buffer space.
func (c *Conn) Write(b []byte) error {
	if err := c.socket.write(b); err != nil {
		return fmt.Errorf("send datagram: %w", err)
	}
	return nil
}

// Poll receives one datagram into b, for a Conn without a Receiver, and returns its length; 0
// if none has arrived.
func (c *Conn) Poll(b []byte) (int, error) {
	n, err := c.socket.poll(b)
	if err != nil {
		return 0, fmt.Errorf("receive datagram: %w", err)
	}
	return n, nil
}

// Headers returns how many bytes of IP and UDP headers each datagram carries.
func (c *Conn) Headers() int { return c.headers }

// PathMTU returns the largest IP packet, in bytes, that the kernel expects to reach the peer;
// unknown if the kernel does not report it.
func (c *Conn) PathMTU() fact.Of[int] { return c.socket.pathMTU() }

// RecvBuffer returns the granted receive buffer in bytes, as the kernel reports it: Linux
// includes its bookkeeping and reports the double.
func (c *Conn) RecvBuffer() fact.Of[units.Bytes] { return c.socket.recvBuffer() }

// Dropped returns how many datagrams this host has dropped because the socket's receive buffer
// was full; unknown if the kernel does not count them per socket.
func (c *Conn) Dropped() fact.Of[int64] { return c.socket.dropped() }

// Close frees the socket. It may be called more than once.
func (c *Conn) Close() error {
	if err := c.socket.close(); err != nil {
		return fmt.Errorf("close udp socket: %w", err)
	}
	return nil
}
