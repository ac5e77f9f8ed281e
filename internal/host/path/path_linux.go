package path

import (
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"linerate/internal/core/fact"
	"linerate/internal/core/health"
)

// here queries rtnetlink.
func here() system { return rtnetlink{} }

type rtnetlink struct{}

func (rtnetlink) remote(name string, inner netip.Addr) (netip.Addr, bool) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return netip.Addr{}, false
	}
	var ip net.IP
	switch v := l.(type) {
	case *netlink.Wireguard, *netlink.Tuntap:
		return wireguard(name, inner)
	case *netlink.Vxlan:
		ip = v.Group
	case *netlink.Geneve:
		ip = v.Remote
	case *netlink.Gretap:
		ip = v.Remote
	case *netlink.Gretun:
		ip = v.Remote
	case *netlink.Iptun:
		ip = v.Remote
	case *netlink.Ip6tnl:
		ip = v.Remote
	case *netlink.Sittun:
		ip = v.Remote
	}
	a, ok := netip.AddrFromSlice(ip)
	a = a.Unmap()
	return a, ok && !a.IsUnspecified() && !a.IsMulticast()
}

func (rtnetlink) route(to netip.Addr) (name, gateway string, ok bool) {
	routes, err := netlink.RouteGet(net.IP(to.AsSlice()))
	if err != nil || len(routes) == 0 {
		return "", "", false
	}
	l, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", "", false
	}
	if routes[0].Gw != nil {
		gateway = routes[0].Gw.String()
	}
	return l.Attrs().Name, gateway, true
}

func (rtnetlink) active(name string) (string, bool) {
	l, err := netlink.LinkByName(name)
	b, isBond := l.(*netlink.Bond)
	if err != nil || !isBond || b.Mode != netlink.BOND_MODE_ACTIVE_BACKUP || b.ActiveSlave <= 0 {
		return "", false
	}
	member, err := netlink.LinkByIndex(b.ActiveSlave)
	if err != nil {
		return "", false
	}
	return member.Attrs().Name, true
}

// port looks up the neighbour's hardware address in the bridge's forwarding database.
func (r rtnetlink) port(name string, neighbour netip.Addr) (string, bool) {
	bridge, err := netlink.LinkByName(name)
	mac, ok := r.hardware(neighbour)
	if err != nil || !ok {
		return "", false
	}
	links, err := netlink.LinkList()
	if err != nil {
		return "", false
	}
	for _, l := range links {
		if l.Attrs().MasterIndex != bridge.Attrs().Index {
			continue
		}
		entries, err := netlink.NeighList(l.Attrs().Index, familyBridge)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.HardwareAddr.String() == mac && e.State&netlink.NUD_PERMANENT == 0 {
				return l.Attrs().Name, true
			}
		}
	}
	return "", false
}

// familyBridge is AF_BRIDGE, include/linux/socket.h.
const familyBridge = 7

func (rtnetlink) other(name string) (string, bool) {
	l, err := netlink.LinkByName(name)
	if err != nil || l.Attrs().NetNsID >= 0 { // the peer's namespace, if it is another one
		return "", false
	}
	peer, err := netlink.LinkByIndex(l.Attrs().ParentIndex)
	if err != nil || peer.Type() != "veth" || peer.Attrs().ParentIndex != l.Attrs().Index {
		return "", false
	}
	return peer.Attrs().Name, true
}

func (rtnetlink) hardware(neighbour netip.Addr) (string, bool) {
	family := netlink.FAMILY_V4
	if neighbour.Is6() {
		family = netlink.FAMILY_V6
	}
	all, err := netlink.NeighList(0, family)
	if err != nil {
		return "", false
	}
	for _, n := range all {
		if a, ok := netip.AddrFromSlice(n.IP); ok && a.Unmap() == neighbour.WithZone("") && len(n.HardwareAddr) > 0 {
			return n.HardwareAddr.String(), true
		}
	}
	return "", false
}

func totals(name string) fact.Of[health.Errors] {
	l, err := netlink.LinkByName(name)
	if err != nil || l.Attrs().Statistics == nil {
		return fact.Unknown[health.Errors]("rtnetlink does not report " + name)
	}
	s := l.Attrs().Statistics
	return fact.Known(health.Errors{
		Packets: int64(s.RxPackets + s.TxPackets), Broken: int64(s.RxErrors + s.TxErrors + s.Collisions), Dropped: int64(s.RxDropped + s.TxDropped),
	}, "rtnetlink")
}
