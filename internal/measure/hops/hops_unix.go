//go:build linux || freebsd || darwin

package hops

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"linerate/internal/measure/engine"
	"linerate/internal/measure/sockio"
)

// sourcePorts is as many as rounds before the load. A bundle of two links sends none of them the
// load's way once in 32 runs, one of four once in 4.
const sourcePorts = idleRounds

// dial opens a UDP socket to the peer, from the address of the load's packets.
func dial(ctx context.Context, c Config) (*net.UDPConn, error) {
	peer, egress := c.Peer.Addr().Unmap(), c.Egress
	network := "udp4"
	if peer.Is6() {
		network = "udp6"
	}
	if egress.Bind == "" && c.Local.IsValid() {
		egress.Bind = c.Local.Unmap().String()
	}
	conn, err := sockio.Dial(ctx, net.Dialer{}, network, netip.AddrPortFrom(peer, c.Peer.Port()).String(), engine.SocketOptions{Egress: egress})
	if err != nil {
		return nil, fmt.Errorf("open socket of the trace: %w", err)
	}
	udp := conn.(*net.UDPConn)
	if c.whole {
		if err := sockio.Uncut(udp); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare socket of the trace: %w", err), conn.Close())
		}
	}
	return udp, nil
}
