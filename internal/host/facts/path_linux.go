package facts

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// sysClassNet is described in Linux Documentation/ABI/testing/sysfs-class-net.
const sysClassNet = "/sys/class/net"

// readPath asks the routing table, as "ip route get" does, and the interface.
func readPath(ctx context.Context, peer netip.Addr) path {
	l, local, err := route(peer)
	if err != nil {
		p := portablePath(ctx, peer)
		p.rate, p.qdisc = fact.Unknown[units.BitRate](err.Error()), fact.Unknown[string](err.Error())
		return p
	}
	const source = "rtnetlink"
	return path{
		address: local,
		device:  fact.Known(l.Attrs().Name, source),
		mtu:     fact.Known(l.Attrs().MTU, source),
		rate:    linkRate(sysClassNet, l),
		qdisc:   qdisc(l),
	}
}

// route returns the interface that packets to peer leave by, and the address
// that they leave with.
func route(peer netip.Addr) (netlink.Link, string, error) {
	o := &netlink.RouteGetOptions{Oif: peer.Zone()}
	if peer.Zone() == "" {
		o = nil
	}
	routes, err := netlink.RouteGetWithOptions(net.IP(peer.WithZone("").AsSlice()), o)
	if err != nil {
		return nil, "", fmt.Errorf("route to %s: %w", peer, err)
	}
	if len(routes) == 0 || routes[0].LinkIndex == 0 {
		return nil, "", fmt.Errorf("route to %s: none", peer)
	}
	l, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return nil, "", fmt.Errorf("route to %s: interface %d: %w", peer, routes[0].LinkIndex, err)
	}
	local := ""
	if routes[0].Src != nil {
		local = routes[0].Src.String()
	}
	return l, local, nil
}

// linkRate reads the speed of a link that has one. veth and TAP devices claim
// 10 Gbit/s and 10 Mbit/s that mean nothing (Linux drivers/net/veth.c
// veth_get_link_ksettings, drivers/net/tun.c tun_default_link_ksettings).
func linkRate(root string, l netlink.Link) fact.Of[units.BitRate] {
	a := l.Attrs()
	if !slices.Contains([]string{"device", "bond", "team", "vlan"}, l.Type()) || a.Flags&net.FlagLoopback != 0 {
		return fact.Unknown[units.BitRate](a.Name + " is a virtual link")
	}
	// sysfs shows the namespace in which it was mounted, which need not be ours.
	if read(root, a.Name, "ifindex") != strconv.Itoa(a.Index) || read(root, a.Name, "address") != a.HardwareAddr.String() {
		return fact.Unknown[units.BitRate]("sysfs does not show " + a.Name)
	}
	// Megabits per second; -1, or no answer, while the link is down or the
	// driver does not know.
	n, err := strconv.ParseInt(read(root, a.Name, "speed"), 10, 32)
	if err != nil || n <= 0 {
		return fact.Unknown[units.BitRate]("the driver of " + a.Name + " tells no speed")
	}
	return fact.Known(units.BitRate(n)*1e6, "sysfs")
}

// read returns the text of an attribute, "" when there is none.
func read(root, device, name string) string {
	b, err := os.ReadFile(filepath.Join(root, device, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// qdisc names the queueing discipline at the root; for one that only spreads
// over hardware queues, also what is below it: "mq of fq_codel".
func qdisc(l netlink.Link) fact.Of[string] {
	all, err := netlink.QdiscList(l)
	if err != nil {
		return fact.Unknown[string](fmt.Sprintf("queueing discipline of %s: %v", l.Attrs().Name, err))
	}
	name := rootQdisc(all)
	if name == "" {
		return fact.Unknown[string](l.Attrs().Name + " shows no queueing discipline")
	}
	return fact.Known(name, "rtnetlink")
}

func rootQdisc(all []netlink.Qdisc) string {
	root := ""
	var below []string
	for _, q := range all {
		switch {
		case q.Attrs().Parent == netlink.HANDLE_ROOT:
			root = q.Type()
		case q.Attrs().Parent != netlink.HANDLE_INGRESS && !slices.Contains(below, q.Type()):
			below = append(below, q.Type())
		}
	}
	if root == "mq" && len(below) > 0 {
		return root + " of " + strings.Join(below, ", ")
	}
	return root
}
