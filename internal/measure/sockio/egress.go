package sockio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
)

// Dial connects to addr as d does, with the options o; over UDP it applies only the egress.
// Over TCP the caller applies o once more, see Control. Its errors are those of Control.
func Dial(ctx context.Context, d net.Dialer, network, addr string, o engine.SocketOptions) (net.Conn, error) {
	local, err := address(o.Egress)
	if err != nil {
		return nil, err
	}
	d.SetMultipathTCP(o.MPTCP) // MPTCP sockets lack options and counters of TCP
	datagrams := strings.HasPrefix(network, "udp")
	if d.Control = Control(o); datagrams {
		d.Control = ControlEgress(o.Egress)
	}
	return FromPorts(o.Egress.From, func(port int) (net.Conn, error) {
		if local.IP != nil || port != 0 {
			local.Port = port
			if d.LocalAddr = local; datagrams {
				d.LocalAddr = (*net.UDPAddr)(local)
			}
		}
		return d.DialContext(ctx, network, addr)
	})
}

// address returns the local address of a socket; without an IP it is any.
func address(o model.Egress) (*net.TCPAddr, error) {
	if o.Bind == "" {
		return &net.TCPAddr{}, nil
	}
	a, err := netip.ParseAddr(o.Bind)
	if err != nil {
		return nil, fmt.Errorf("bind to %.60q: %w", o.Bind, err)
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 0)), nil
}

// FromPorts calls dial with each of ports until one is free, and once with 0 if ports is zero.
func FromPorts[T any](ports model.Ports, dial func(port int) (T, error)) (c T, err error) {
	for port := ports.First; port <= ports.Last; port++ {
		if c, err = dial(port); err == nil || ports == (model.Ports{}) || !portTaken(err) {
			return c, err
		}
	}
	return c, fmt.Errorf("no port of %s is free: %w", ports, err)
}

// portTaken reports whether another socket has a port: bind reports that, and so does connect
// if the pair of addresses is still in use (__inet_check_established,
// net/ipv4/inet_hashtables.c).
func portTaken(err error) bool {
	call, ok := errors.AsType[*os.SyscallError](err)
	if !ok {
		return false
	}
	const windowsInUse = syscall.Errno(10048) // WSAEADDRINUSE
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, windowsInUse) ||
		call.Syscall == "connect" && errors.Is(err, syscall.EADDRNOTAVAIL)
}

// ControlEgress returns a function for the Control field of net.Dialer and net.ListenConfig
// that makes a TCP or UDP socket send as o says. The error wraps errors.ErrUnsupported if the
// system cannot.
func ControlEgress(o model.Egress) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var failed error
		if err := c.Control(func(fd uintptr) { failed = leave(fd, o) }); err != nil {
			return err
		}
		return failed
	}
}

// MarkDSCP marks the packets of an open socket; 0 changes nothing.
func MarkDSCP(c syscall.Conn, dscp int) error {
	return WithDescriptor(c, func(fd uintptr) error { return markDSCP(fd, dscp) })
}

// MarkMessage returns the control message that marks one datagram to an address, for a socket
// that several clients share; nil if the system has none.
func MarkMessage(dscp int, to netip.Addr) []byte {
	return markMessage(byte(dscp<<2), to.Is6() && !to.Is4In6()) // RFC 2474 section 3: the upper six bits
}

// leave prepares a socket that is neither bound nor connected.
func leave(fd uintptr, o model.Egress) error {
	if o.From != (model.Ports{}) {
		if err := reuseAddress(fd); err != nil {
			return fmt.Errorf("share source ports: %w", err)
		}
	}
	if o.Device != "" {
		if err := bindDevice(fd, o.Device); err != nil {
			return fmt.Errorf("send through interface %s: %w", o.Device, err)
		}
	}
	return markDSCP(fd, o.DSCP)
}

// markDSCP sets the DSCP of a socket.
func markDSCP(fd uintptr, dscp int) error {
	if dscp == 0 {
		return nil
	}
	if err := setTOS(fd, dscp<<2); err != nil { // RFC 2474 section 3: the upper six bits
		return fmt.Errorf("mark packets with DSCP %d: %w", dscp, err)
	}
	return nil
}
