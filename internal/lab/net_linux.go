package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/lab/wire"
)

// interfaceName is a host's one interface besides lo.
const interfaceName = "eth0"

// queueFrames is the transmit queue of a TAP device: frames that wait for the
// wire process to run. At 1 Gbit/s with full frames it covers 100 ms.
const queueFrames = 8192

// minMTU6 is the least MTU of IPv6 (RFC 8200 section 5).
const minMTU6 = 1280

// vethPort makes a veth pair with one end, eth0, in the network namespace of
// the given file and returns a port on the other.
func vethPort(host model.Host, namespace *os.File, mtu int) (wire.Port, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = vethName(host)
	attrs.MTU = mtu
	err := netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: interfaceName, PeerMTU: uint32(mtu),
		PeerNamespace: netlink.NsFd(namespace.Fd()),
	})
	if err != nil {
		return nil, fmt.Errorf("create veth pair: %w", err)
	}
	// No addresses of its own: the wire must not talk.
	disableIPv6(attrs.Name)
	l, err := netlink.LinkByName(attrs.Name)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", attrs.Name, err)
	}
	if err := offloadsOff(attrs.Name); err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return nil, fmt.Errorf("set %s up: %w", attrs.Name, err)
	}
	return wire.NewPacket(l.Attrs().Index, mtu+wire.HeaderBytes+vlanTag)
}

// vethName is the name of the wire's end of a host's veth pair.
func vethName(host model.Host) string { return "wire-" + string(host) }

// removeVeths removes what vethPort may have made before it failed.
func removeVeths() {
	for _, host := range []model.Host{model.Near, model.Far} {
		if l, err := netlink.LinkByName(vethName(host)); err == nil {
			_ = netlink.LinkDel(l) // if it stays, making the TAP device says so
		}
	}
}

// disableIPv6 keeps the kernel from sending by itself on an interface. Without
// IPv6, or with /proc/sys read-only, a few frames more cross the wire.
func disableIPv6(name string) {
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
}

// quietIPv6 keeps the kernel from sending router solicitations and making
// link-local addresses on an interface. As for disableIPv6, failing costs a few
// frames only.
func quietIPv6(name string) {
	for _, s := range []struct{ key, value string }{
		{"addr_gen_mode", "1"}, {"accept_ra", "0"}, {"router_solicitations", "0"}, {"accept_dad", "0"},
	} {
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/"+s.key, []byte(s.value), 0)
	}
}

// configure brings up lo and eth0 of a host with its addresses and with what it
// has to know of the other one, so that no frame is spent on asking.
func configure(host model.Host, mtu int, shape units.BitRate) error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	quietIPv6(interfaceName)
	// A virtual host remembers nothing of earlier connections, so that runs start
	// alike even where this user may not purge what it remembers.
	_ = os.WriteFile("/proc/sys/net/ipv4/tcp_no_metrics_save", []byte("1"), 0)
	eth, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return fmt.Errorf("find %s: %w", interfaceName, err)
	}
	own, peer := plan(host), plan(other(host))
	steps := []struct {
		name string
		do   func() error
	}{
		{"mtu", func() error { return netlink.LinkSetMTU(eth, mtu) }},
		{"hardware address", func() error { return netlink.LinkSetHardwareAddr(eth, own.mac) }},
		{"queue length", func() error { return netlink.LinkSetTxQLen(eth, queueFrames) }},
		{"offloads", func() error { return offloadsOff(interfaceName) }},
		{"up", func() error { return netlink.LinkSetUp(eth) }},
		{"address", func() error { return netlink.AddrAdd(eth, address(own.v4)) }},
		{"neighbour", func() error { return addNeighbour(eth, peer.v4.Addr(), peer.mac) }},
		{"shaper", func() error { return addShaper(eth, shape) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("set %s of %s: %w", s.name, interfaceName, err)
		}
	}
	if mtu < minMTU6 {
		return nil
	}
	err = netlink.AddrAdd(eth, address(own.v6))
	if err == nil {
		err = addNeighbour(eth, peer.v6.Addr(), peer.mac)
	}
	if err != nil && !noIPv6(err) {
		return fmt.Errorf("set IPv6 address of %s: %w", interfaceName, err)
	}
	return nil
}

// addShaper puts a token bucket filter of that rate at an interface (tc-tbf(8)): bursts
// of 4 ms, at least 32 KiB, and a queue of 50 ms. It does nothing for a rate of 0.
func addShaper(l netlink.Link, rate units.BitRate) error {
	if rate <= 0 {
		return nil
	}
	bytes := float64(rate) / 8
	burst := max(32*1024, bytes*0.004)
	return netlink.QdiscReplace(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       uint64(bytes), Limit: uint32(burst + bytes*0.050),
		// The kernel takes the burst as a time, in ticks of 64 ns (PSCHED_SHIFT of net/pkt_sched.h).
		Buffer: uint32(burst / bytes * 1e9 / 64),
	})
}

// noIPv6 reports whether err says that the kernel has no IPv6 or that it is
// switched off (ipv6.disable=1, or disable_ipv6 inherited).
func noIPv6(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EACCES)
}

func address(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
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

// droppedOnSend returns how many frames eth0 dropped because the wire process
// did not take them in time.
func droppedOnSend() (uint64, error) {
	l, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", interfaceName, err)
	}
	st := l.Attrs().Statistics
	if st == nil {
		return 0, fmt.Errorf("read counters of %s on %s: %w", interfaceName, runtime.GOOS, errors.ErrUnsupported)
	}
	return st.TxDropped, nil
}
