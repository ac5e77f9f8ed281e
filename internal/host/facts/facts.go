// Package facts reads what a host is and which path its data takes, without changing
// anything.
package facts

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/linkid"
)

// discard is the port of RFC 863. Nothing is sent there: a UDP socket connected to it shows
// the local address of the path.
const discard = 9

// Read returns the facts of this machine, the end called host of a session, with the data
// path to peer: a host name or an address, with or without a port, and optionally % and the
// interface to use instead of the route's; "" for no path. version is linerate's own. What
// cannot be read is unknown, with the reason. The caller fills in Knobs, since it knows which
// ones matter. x is the catalogue of the settings.
func Read(ctx context.Context, x *knob.Index, host model.Host, peer, version string) model.HostFacts {
	f := model.HostFacts{
		Host: host, OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Version: version,
		Kernel:     kernel(),
		Congestion: hostknob.Host{Index: x}.Read(ctx, "tcp.congestion_control")["tcp.congestion_control"],
	}
	f.Name, _ = os.Hostname() // "" if the host has no name
	m := ReadMachine(ctx)
	f.Machine = &m
	peer, device := splitDevice(peer)
	a, err := resolve(ctx, peer)
	if err != nil {
		f.NICs, _ = ReadNICs(ctx, x, "") // leave out what cannot be listed
		why := err.Error()
		f.Interface, f.MTU, f.LinkRate = fact.Unknown[string](why), fact.Unknown[int](why), fact.Unknown[units.BitRate](why)
		f.Qdisc = fact.Unknown[string](why)
		return f
	}
	p := readPath(ctx, a, device)
	f.Address, f.Interface, f.MTU, f.LinkRate, f.Qdisc = p.address, p.device, p.mtu, p.rate, p.qdisc
	p.route.Peer = a.String()
	f.Route = &p.route
	f.NICs, _ = ReadNICs(ctx, x, p.device.Or(""))
	f.LinkRate = pathRate(p, f.NICs)
	return f
}

// pathRate returns the rate of the path's link, from the route or the interface itself. The
// rate of a radio changes with every frame and counts as unknown.
func pathRate(p path, nics []model.NIC) fact.Of[units.BitRate] {
	device, known := p.device.Get()
	switch {
	case p.rate.IsKnown(), !known, len(nics) == 0, nics[0].Name != device:
		return p.rate
	case nics[0].Kind.Or("") == "wireless":
		return fact.Unknown[units.BitRate](device + " is a radio")
	}
	return nics[0].Media.Speed
}

// path is the path from this machine to a peer.
type path struct {
	address string // local, "" when unknown
	device  fact.Of[string]
	mtu     fact.Of[int]
	rate    fact.Of[units.BitRate]
	qdisc   fact.Of[string]
	route   model.Route // without the peer
}

// unknownPath returns a path with all facts unknown, for one reason.
func unknownPath(why string) (p path) {
	fact.Explain(&p.route, why)
	p.device, p.mtu, p.rate, p.qdisc = p.route.Interface, p.route.MTU, fact.Unknown[units.BitRate](why), fact.Unknown[string](why)
	return p
}

// splitDevice cuts the interface off a peer. The zone of a link-local address also stays.
func splitDevice(peer string) (host, device string) {
	host, device, _ = strings.Cut(peer, "%")
	if a, err := netip.ParseAddr(peer); err == nil && a.IsLinkLocalUnicast() {
		return peer, device
	}
	return host, device
}

// resolve returns the first address of peer.
func resolve(ctx context.Context, peer string) (netip.Addr, error) {
	if h, _, err := net.SplitHostPort(peer); err == nil {
		peer = h
	}
	if peer == "" {
		return netip.Addr{}, fmt.Errorf("no peer")
	}
	if a, err := netip.ParseAddr(peer); err == nil {
		return a.Unmap(), nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", peer)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the peer: %w", err)
	}
	if len(all) == 0 {
		return netip.Addr{}, fmt.Errorf("find the peer: %s has no address", peer)
	}
	return all[0].Unmap(), nil
}

// portablePath opens a socket to peer and looks up the owner of its local address. If several
// interfaces have that address, or packets leave by another one (the weak model of RFC 1122
// section 3.3.4.2), it names the owner of the address.
func portablePath(ctx context.Context, peer netip.Addr) path {
	local, err := localAddress(ctx, peer)
	if err != nil {
		return unknownPath(err.Error())
	}
	p := unknownPath("not available on " + runtime.GOOS)
	p.address = local.WithZone("").String()
	i, err := linkid.Owner(local)
	if err != nil {
		p.device, p.mtu = fact.Unknown[string](err.Error()), fact.Unknown[int](err.Error())
		return p
	}
	const source = "owner of the local address"
	p.device, p.mtu = fact.Known(i.Name, source), fact.Known(i.MTU, source)
	p.route.Interface, p.route.Source, p.route.MTU = p.device, fact.Known(p.address, "socket"), fact.Known(i.MTU, "interface")
	return p
}

func localAddress(ctx context.Context, peer netip.Addr) (netip.Addr, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", netip.AddrPortFrom(peer, discard).String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the path to %s: %w", peer, err)
	}
	defer c.Close() // nothing was sent
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the path to %s: %w", peer, err)
	}
	return local.Addr().Unmap(), nil
}

// unknownMedia returns a link mode with all facts unknown, for one reason.
func unknownMedia(why string) (m model.Media) {
	fact.Explain(&m, why)
	return m
}
