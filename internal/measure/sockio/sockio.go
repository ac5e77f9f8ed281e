// Package sockio sets the options of a flow's TCP sockets, reads back what the kernel granted,
// and reads the CPU time that moving payload costs.
//
// It is a leaf: system-specific details do not leave it.
package sockio

import (
	"context"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
)

// Granted are a socket's options as the kernel reports them.
type Granted struct {
	// SendBuffer and RecvBuffer are SO_SNDBUF and SO_RCVBUF in bytes as the kernel reports
	// them. Linux reports twice the requested size, because it includes its bookkeeping
	// (socket(7)).
	SendBuffer fact.Of[units.Bytes]
	RecvBuffer fact.Of[units.Bytes]
	// MSS is TCP_MAXSEG in bytes: the largest segment to be sent once the connection is
	// established, and a default before.
	MSS fact.Of[int]
	// NoDelay is TCP_NODELAY: Nagle's algorithm (RFC 896) is off.
	NoDelay fact.Of[bool]
}

// Control returns a function for the Control field of net.Dialer and
// net.ListenConfig that sets o before the handshake. Only then do a window
// larger than 64 KiB and a segment size take full effect, because both are
// announced in the SYN (RFC 7323 section 2, RFC 9293 section 3.7.1). Accepted
// connections inherit the options of their listener.
//
// Package net turns TCP_NODELAY on after the handshake, so call Apply then. Errors wrap
// errors.ErrUnsupported if the system has no such option, and fs.ErrPermission if this user may
// not use the congestion control.
func Control(o engine.SocketOptions) func(network, address string, c syscall.RawConn) error {
	return func(_, address string, c syscall.RawConn) error {
		var failed error
		if err := c.Control(func(fd uintptr) {
			if failed = set(fd, o); failed == nil {
				failed = leave(fd, o.Egress)
			}
		}); err != nil {
			return fmt.Errorf("reach socket for %s: %w", address, err)
		}
		return failed
	}
}

// Apply sets o on an established connection, reads the options back, and returns a warning for
// each that differs from the request. The errors are those of Control.
func Apply(c *net.TCPConn, o engine.SocketOptions) ([]string, error) {
	g, err := OnDescriptor(c, func(fd uintptr) (Granted, error) {
		err := set(fd, o)
		if err == nil {
			err = markDSCP(fd, o.Egress.DSCP)
		}
		if err == nil {
			err = openWindow(fd, o)
		}
		if err != nil {
			return Granted{}, err
		}
		return get(fd)
	})
	if err != nil {
		return nil, err
	}
	warnings := compare(o, g)
	if o.MPTCP && !Multipath(c) {
		warnings = append(warnings, "Multipath TCP fell back to TCP: "+whyFallback())
	}
	return warnings, nil
}

// Multipath reports whether c is, and still is, a connection over Multipath TCP.
func Multipath(c *net.TCPConn) bool {
	is, err := c.MultipathTCP()
	return err == nil && is
}

// Read returns the options of c as the kernel reports them. The error wraps
// errors.ErrUnsupported if that is not possible.
func Read(c syscall.Conn) (Granted, error) { return OnDescriptor(c, get) }

// ReadFD is Read for a socket that the caller holds by its descriptor.
func ReadFD(fd uintptr) (Granted, error) { return get(fd) }

// OnDescriptor calls f with the descriptor of c and returns its result.
func OnDescriptor[T any](c syscall.Conn, f func(fd uintptr) (T, error)) (out T, err error) {
	raw, failed := c.SyscallConn()
	if failed == nil {
		failed = raw.Control(func(fd uintptr) { out, err = f(fd) })
	}
	if failed != nil {
		return out, fmt.Errorf("reach socket: %w", failed)
	}
	return out, err
}

// WithDescriptor is OnDescriptor for an f that returns only an error.
func WithDescriptor(c syscall.Conn, f func(fd uintptr) error) error {
	_, err := OnDescriptor(c, func(fd uintptr) (struct{}, error) { return struct{}{}, f(fd) })
	return err
}

// Answers reports whether the server at addr answers say, before ctx ends, with something that
// heard accepts.
func Answers(ctx context.Context, addr string, from model.Egress, say []byte, heard func(io.Reader) bool) bool {
	c, err := Dial(ctx, net.Dialer{}, "tcp", addr, engine.SocketOptions{NoDelay: true, Egress: from})
	if err != nil {
		return false
	}
	defer c.Close()
	if until, ok := ctx.Deadline(); ok && c.SetDeadline(until) != nil {
		return false
	}
	_, err = c.Write(say)
	return err == nil && heard(c)
}

// compare returns a warning for each option of o that g does not have.
func compare(o engine.SocketOptions, g Granted) []string {
	var out []string
	for _, b := range []struct {
		name string
		got  fact.Of[units.Bytes]
	}{{"send", g.SendBuffer}, {"receive", g.RecvBuffer}} {
		got, known := b.got.Get()
		if o.Window == 0 || !known {
			continue
		}
		usable := int(got) / bufferFactor
		switch {
		case usable < o.Window:
			out = append(out, fmt.Sprintf("%s buffer is %d bytes where %d were asked: limited by %s",
				b.name, usable, o.Window, bufferLimit(b.name)))
		case usable > o.Window:
			out = append(out, fmt.Sprintf("%s buffer is %d bytes where %d were asked: the least that the system allows",
				b.name, usable, o.Window))
		}
	}
	if mss, known := g.MSS.Get(); known && o.MSS != 0 && mss > o.MSS {
		out = append(out, fmt.Sprintf("segments are %d bytes where at most %d were asked: set too late, or ignored by the system",
			mss, o.MSS))
	}
	if on, known := g.NoDelay.Get(); known && on != o.NoDelay {
		out = append(out, fmt.Sprintf("tcp_nodelay is %t where %t was asked", on, o.NoDelay))
	}
	return out
}

// AllowedCongestion reports whether every program on this host may choose that congestion
// control for its sockets. A server checks it before it sets one that an anonymous client
// names: setting another one, as root may on Linux, loads a kernel module
// (tcp_set_congestion_control, net/ipv4/tcp_cong.c) and uses an algorithm that the host's owner
// has reserved. Systems without such a list allow all that they have.
func AllowedCongestion(name string) bool { return allowedCongestion(name) }

// Refused reports whether an error of a stream or a datagram socket means that the port at the
// other end is closed.
func Refused(err error) bool { return refused(err) }

// HearRefusals makes a connected socket return errors that Refused recognises if the port at
// the other end is closed (RFC 1122 section 4.1.3.3). Every system but Windows does so by
// default; there package net turns it off.
func HearRefusals(c *net.UDPConn) error { return hearRefusals(c) }

// ReusePort lets several sockets of this user share one UDP port; the kernel passes each
// datagram to the socket that is connected to its sender. It is for net.ListenConfig.Control
// and net.Dialer.Control. The error wraps errors.ErrUnsupported if the system does not support
// it.
func ReusePort(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) { err = reusePort(fd) }); cerr != nil {
		return cerr
	}
	return err
}

// GiveTo gives a socket to another user, as root, so that sockets which this process opens as
// that user can share its port (Linux 6.1, net/ipv4/udp.c udp_lib_lport_inuse: all must belong
// to one user). Elsewhere it does nothing.
func GiveTo(conn syscall.Conn, uid, gid int) error {
	return WithDescriptor(conn, func(fd uintptr) error { return giveTo(fd, uid, gid) })
}

// CPUTime is an amount of processor time.
type CPUTime struct {
	User   time.Duration // in the program
	System time.Duration // in the kernel on the program's behalf
}

// Total returns user plus system time.
func (t CPUTime) Total() time.Duration { return t.User + t.System }

// Sub returns t - s.
func (t CPUTime) Sub(s CPUTime) CPUTime {
	return CPUTime{User: t.User - s.User, System: t.System - s.System}
}

// ProcessCPU returns the CPU time of this process since its start, over all its threads. Time
// that the kernel spends in interrupts for its traffic is charged to the interrupted process;
// only SystemCPU includes it. The error wraps errors.ErrUnsupported if the system does not
// report it.
func ProcessCPU() (CPUTime, error) { return processCPU() }

// ThreadCPU returns the CPU time of the calling thread; the caller must have locked the thread
// with runtime.LockOSThread. The error wraps errors.ErrUnsupported if the system does not
// report it.
func ThreadCPU() (CPUTime, error) { return threadCPU() }

// SystemCPU returns the total busy time of all CPUs of the machine since its start, including
// interrupts but not stolen time. The difference of two readings over the wall time between
// them is the number of busy cores. Linux counts in ticks of 10 ms. The error wraps
// errors.ErrUnsupported if the system does not report it.
func SystemCPU() (time.Duration, error) { return systemCPU() }
