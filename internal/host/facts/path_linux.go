package facts

import (
	"cmp"
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
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// sysClassNet is described in Linux Documentation/ABI/testing/sysfs-class-net.
const sysClassNet = "/sys/class/net"

// readPath queries the routing table, as "ip route get" does, and the interface.
func readPath(ctx context.Context, peer netip.Addr, device string) path {
	l, r, err := route(peer, device)
	if err != nil {
		p := portablePath(ctx, peer)
		p.rate, p.qdisc = fact.Unknown[units.BitRate](err.Error()), fact.Unknown[string](err.Error())
		return p
	}
	const source = "rtnetlink"
	local := ""
	if r.Src != nil {
		local = r.Src.String()
	}
	return path{
		address: local,
		route:   routeFacts(l, r),
		device:  fact.Known(l.Attrs().Name, source),
		mtu:     fact.Known(l.Attrs().MTU, source),
		rate:    linkRate(sysClassNet, l),
		qdisc:   qdisc(l),
	}
}

// route returns the interface that packets to peer leave by, and their route; device, unless
// "", is the interface to use.
func route(peer netip.Addr, device string) (netlink.Link, netlink.Route, error) {
	o := &netlink.RouteGetOptions{Oif: cmp.Or(device, peer.Zone())}
	if o.Oif == "" {
		o = nil
	}
	routes, err := netlink.RouteGetWithOptions(net.IP(peer.WithZone("").AsSlice()), o)
	if err != nil {
		return nil, netlink.Route{}, fmt.Errorf("route to %s: %w", peer, err)
	}
	if len(routes) == 0 || routes[0].LinkIndex == 0 {
		return nil, netlink.Route{}, fmt.Errorf("route to %s: none", peer)
	}
	l, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return nil, netlink.Route{}, fmt.Errorf("route to %s: interface %d: %w", peer, routes[0].LinkIndex, err)
	}
	return l, routes[0], nil
}

// routeFacts returns what the kernel says about a route.
func routeFacts(l netlink.Link, r netlink.Route) model.Route {
	const source = "rtnetlink"
	f := model.Route{
		Interface: fact.Known(l.Attrs().Name, source), Source: fact.Unknown[string]("the route has none"),
		Gateway: fact.Known("", source), MTU: fact.Known(l.Attrs().MTU, "interface"),
	}
	if r.Src != nil {
		f.Source = fact.Known(r.Src.String(), source)
	}
	if r.Gw != nil {
		f.Gateway = fact.Known(r.Gw.String(), source)
	} else if via, ok := r.Via.(*netlink.Via); ok { // an IPv4 route through an IPv6 router, RFC 5549
		f.Gateway = fact.Known(via.Addr.String(), source)
	}
	if r.MTU > 0 {
		f.MTU = fact.Known(r.MTU, "route")
	}
	f.Metrics = metrics(r)
	return f
}

// metrics returns the attributes that a route sets (Linux include/uapi/linux/rtnetlink.h
// RTAX_*), under the names of "ip route".
func metrics(r netlink.Route) map[string]string {
	all := map[string]string{}
	for name, n := range map[string]int{
		"window": r.Window, "rtt": r.Rtt, "rttvar": r.RttVar, "ssthresh": r.Ssthresh, "cwnd": r.Cwnd, "advmss": r.AdvMSS,
		"reordering": r.Reordering, "hoplimit": r.Hoplimit, "initcwnd": r.InitCwnd, "features": r.Features, "rto_min": r.RtoMin,
		"initrwnd": r.InitRwnd, "quickack": r.QuickACK, "fastopen_no_cookie": r.FastOpenNoCookie,
	} {
		if n != 0 {
			all[name] = strconv.Itoa(n)
		}
	}
	if r.MTULock {
		all["mtu_lock"] = "1"
	}
	if r.Congctl != "" {
		all["congctl"] = r.Congctl
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// linkRate reads the speed of a link that has one. veth and TAP devices report 10 Gbit/s and
// 10 Mbit/s, which mean nothing (Linux drivers/net/veth.c veth_get_link_ksettings,
// drivers/net/tun.c tun_default_link_ksettings).
func linkRate(root string, l netlink.Link) fact.Of[units.BitRate] {
	a := l.Attrs()
	if !slices.Contains([]string{"device", "bond", "team", "vlan"}, l.Type()) || a.Flags&net.FlagLoopback != 0 {
		return fact.Unknown[units.BitRate](a.Name + " is a virtual link")
	}
	if !shows(root, a) {
		return fact.Unknown[units.BitRate]("sysfs does not show " + a.Name)
	}
	// Megabits per second; -1, or no answer, if the link is down or the driver does not know.
	n, err := strconv.ParseInt(read(root, a.Name, "speed"), 10, 32)
	return fact.If(err == nil && n > 0, units.BitRate(n)*1e6, "sysfs", "the driver of "+a.Name+" reports no speed")
}

// shows reports whether sysfs shows this interface: it shows the namespace in which it was
// mounted, which may not be ours.
func shows(root string, a *netlink.LinkAttrs) bool {
	return read(root, a.Name, "ifindex") == strconv.Itoa(a.Index) && read(root, a.Name, "address") == a.HardwareAddr.String()
}

// read returns the text of an attribute, "" if there is none.
func read(root, device, name string) string {
	b, err := os.ReadFile(filepath.Join(root, device, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// qdisc names the root queueing discipline; for one that only spreads packets over hardware
// queues, also the one below it: "mq of fq_codel".
func qdisc(l netlink.Link) fact.Of[string] {
	all, err := netlink.QdiscList(l)
	if err != nil {
		return fact.Unknown[string](fmt.Sprintf("queueing discipline of %s: %v", l.Attrs().Name, err))
	}
	name := rootQdisc(all)
	return fact.If(name != "", name, "rtnetlink", l.Attrs().Name+" shows no queueing discipline")
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
