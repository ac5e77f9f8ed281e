package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/lab/wire"
)

// interfaceName is a host's one interface besides lo.
const interfaceName = "eth0"

// queueFrames is the transmit queue of a TAP device: frames that wait for the wire process to
// run. At 1 Gbit/s with full frames it covers 100 ms.
const queueFrames = 8192

// minMTU6 is the minimum MTU of IPv6 (RFC 8200 section 5).
const minMTU6 = 1280

// vethPort creates a veth pair with one end, peer, in the network namespace of the given file
// and returns a port on the other, name, of a path with that many ports.
func vethPort(name, peer string, namespace *os.File, mtu, ports int) (wire.Port, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := addVeth(attrs, peer, namespace, mtu); err != nil {
		return nil, err
	}
	// No addresses of its own: the wire must not send.
	disableIPv6(name)
	l, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	if err := offloadsOff(name); err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return nil, fmt.Errorf("set %s up: %w", name, err)
	}
	return wire.NewPacket(l.Attrs().Index, mtu+wire.HeaderBytes+vlanTag, ports)
}

// addVeth creates a veth pair: one end with attrs, the other in a network namespace.
func addVeth(attrs netlink.LinkAttrs, peer string, namespace *os.File, mtu int) error {
	attrs.MTU = mtu
	err := netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: peer, PeerMTU: uint32(mtu),
		PeerNamespace: netlink.NsFd(namespace.Fd()),
	})
	if err != nil {
		return fmt.Errorf("create veth pair: %w", err)
	}
	return nil
}

// disableIPv6 keeps the kernel from sending by itself on an interface. Without IPv6, or with a
// read-only /proc/sys, a few frames more cross the wire.
func disableIPv6(name string) {
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
}

// quietIPv6 keeps the kernel from sending router solicitations and creating link-local
// addresses on an interface. As with disableIPv6, a failure only costs a few frames.
func quietIPv6(name string) {
	for _, s := range []struct{ key, value string }{
		{"addr_gen_mode", "1"}, {"accept_ra", "0"}, {"router_solicitations", "0"}, {"accept_dad", "0"},
	} {
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/"+s.key, []byte(s.value), 0)
	}
}

// configure sets up eth0 of a host, with routes to all links of the path.
func configure(host model.Host, s Spec, shape units.BitRate) error {
	// A virtual host caches no metrics of earlier connections, so that runs start alike even if
	// this user may not flush that cache.
	_ = os.WriteFile("/proc/sys/net/ipv4/tcp_no_metrics_save", []byte("1"), 0)
	peer := s.peerEnd(host)
	eth, err := setUp(interfaceName, s.hostEnd(host), peer, s.MTU)
	if err != nil {
		return err
	}
	if err := addShaper(eth, shape); err != nil {
		return fmt.Errorf("set shaper of %s: %w", interfaceName, err)
	}
	if len(s.Hops) == 0 {
		return nil
	}
	return addRoute(lab4, lab6, 0, s.MTU, gateway{eth.Attrs().Index, peer})
}

// setUp gives an interface that is up its addresses and its neighbour's, so that no frame is
// spent on discovery.
func setUp(name string, own, peer addresses, mtu int) (netlink.Link, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"mtu", func() error { return netlink.LinkSetMTU(l, mtu) }},
		{"hardware address", func() error { return netlink.LinkSetHardwareAddr(l, own.mac) }},
		{"queue length", func() error { return netlink.LinkSetTxQLen(l, queueFrames) }},
		{"offloads", func() error { return offloadsOff(name) }},
		{"carrier", func() error { return awaitUp(name) }},
		{"address", func() error { return netlink.AddrAdd(l, address(own.v4)) }},
		{"neighbour", func() error { return addNeighbour(l, peer.v4.Addr(), peer.mac) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return nil, fmt.Errorf("set %s of %s: %w", s.name, name, err)
		}
	}
	if mtu < minMTU6 {
		return l, nil
	}
	err = netlink.AddrAdd(l, address(own.v6))
	if err == nil {
		err = addNeighbour(l, peer.v6.Addr(), peer.mac)
	}
	if err == nil {
		err = awaitLocal(own.v6.Addr())
	}
	if err != nil && !noIPv6(err) {
		return nil, fmt.Errorf("set IPv6 address of %s: %w", name, err)
	}
	return l, nil
}

// workSoon is how long the kernel's work queue may take.
const workSoon = 10 * time.Second

// await waits until done returns true, which a work queue of the kernel brings about.
func await(name string, done func() (bool, error)) error {
	for begun := time.Now(); time.Since(begun) < workSoon; time.Sleep(time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s is not ready within %s: %w", name, workSoon, os.ErrDeadlineExceeded)
}

// awaitUp waits until an interface sends: one end of a veth pair was set up before the other
// (linkwatch_do_dev of net/core/link_watch.c, Linux 6.18).
func awaitUp(name string) error {
	return await(name, func() (bool, error) {
		l, err := netlink.LinkByName(name)
		return err == nil && (l.Type() != "veth" || l.Attrs().OperState == netlink.OperUp), err
	})
}

// awaitLocal waits until the kernel accepts packets to its new address, whose route it adds
// later (addrconf_dad_work of net/ipv6/addrconf.c, Linux 6.18).
func awaitLocal(own netip.Addr) error {
	return await(own.String(), func() (bool, error) {
		routes, err := netlink.RouteGet(own.AsSlice())
		return len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL, err
	})
}

// gateway is a neighbour and the index of the interface that leads to it.
type gateway struct {
	index int
	addresses
}

// addRoute adds a route for both IP versions over gateways, with packets of at most most bytes
// unless most is 0.
func addRoute(to4, to6 netip.Prefix, most, mtu int, over ...gateway) error {
	err := routeOver(to4, most, over, func(a addresses) netip.Addr { return a.v4.Addr() })
	if err == nil && mtu >= minMTU6 {
		if err = routeOver(to6, most, over, func(a addresses) netip.Addr { return a.v6.Addr() }); noIPv6(err) {
			return nil
		}
	}
	return err
}

func routeOver(to netip.Prefix, most int, over []gateway, pick func(addresses) netip.Addr) error {
	// Locked: otherwise it limits only IPv4 when forwarding (ip6_dst_mtu_maybe_forward of
	// include/net/ip6_route.h, Linux 6.18).
	r := &netlink.Route{Dst: ipNet(to), MTU: most, MTULock: most > 0}
	for _, g := range over {
		r.MultiPath = append(r.MultiPath, &netlink.NexthopInfo{LinkIndex: g.index, Gw: pick(g.addresses).AsSlice()})
	}
	if len(over) == 1 {
		r.LinkIndex, r.Gw, r.MultiPath = over[0].index, r.MultiPath[0].Gw, nil
		if pick(over[0].addresses) == to.Addr() {
			r.Gw, r.Scope = nil, netlink.SCOPE_LINK
		}
	}
	if err := netlink.RouteAdd(r); err != nil {
		return fmt.Errorf("add route to %s: %w", to, err)
	}
	return nil
}

// addShaper adds a token bucket filter of that rate to an interface (tc-tbf(8)): bursts of 4
// ms, at least 32 KiB, and a queue of 50 ms. It does nothing for a rate of 0.
func addShaper(l netlink.Link, rate units.BitRate) error {
	if rate <= 0 {
		return nil
	}
	bytes := float64(rate) / 8
	burst := max(32*1024, bytes*0.004)
	return netlink.QdiscReplace(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       uint64(bytes), Limit: uint32(burst + bytes*0.050),
		// The kernel takes the burst as a time, in ticks of 64 ns (PSCHED_SHIFT of
		// net/pkt_sched.h).
		Buffer: uint32(burst / bytes * 1e9 / 64),
	})
}

// noIPv6 reports whether err means that the kernel has no IPv6 or that it is disabled
// (ipv6.disable=1, or disable_ipv6 inherited).
func noIPv6(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EACCES)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func address(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{IPNet: ipNet(p)}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

func addNeighbour(l netlink.Link, ip netip.Addr, mac net.HardwareAddr) error {
	return netlink.NeighSet(&netlink.Neigh{
		LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: ip.AsSlice(), HardwareAddr: mac,
	})
}

// droppedOnSend returns how many frames eth0 dropped because the wire process did not read them
// in time.
func droppedOnSend() (uint64, error) {
	l, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", interfaceName, err)
	}
	return dropped(l)
}

func dropped(l netlink.Link) (uint64, error) {
	st := l.Attrs().Statistics
	if st == nil {
		return 0, fmt.Errorf("read counters of %s on %s: %w", l.Attrs().Name, runtime.GOOS, errors.ErrUnsupported)
	}
	return st.TxDropped, nil
}
