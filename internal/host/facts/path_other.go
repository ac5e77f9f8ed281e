//go:build !linux

package facts

import (
	"context"
	"net"
	"net/netip"

	"linerate/internal/core/fact"
)

// readPath finds the interface that owns the local address, and looks up the rest in the
// system's routing table.
func readPath(ctx context.Context, peer netip.Addr, _ string) path {
	p := portablePath(ctx, peer)
	gateway, mtu, err := lookUpRoute(ctx, peer)
	if err != nil {
		p.route.Gateway = fact.Unknown[string](err.Error())
		return p
	}
	p.route.Gateway = fact.Known(gateway, "routing table")
	if mtu > 0 {
		p.route.MTU = fact.Known(mtu, "route")
	}
	return p
}

// addresses lists the addresses of an interface.
func addresses(i net.Interface) []string {
	list, err := i.Addrs()
	if err != nil {
		return nil // the interface went away meanwhile
	}
	var all []string
	for _, a := range list {
		all = append(all, a.String())
	}
	return all
}
