package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
)

// wireEnd returns the name of the wire's end of a veth pair: that of cable number, on the side
// of host.
func wireEnd(number int, host model.Host) string { return fmt.Sprintf("wire%d-%s", number, host) }

// ends returns the names of the interfaces that a cable joins. A router's are named after the
// host that they lead to.
func (c cable) ends(routers int) (near, far string) {
	near, far = fmt.Sprintf("%s%d", model.Far, c.number), fmt.Sprintf("%s%d", model.Near, c.number)
	if c.at == 0 {
		near = interfaceName
	}
	if c.at == routers {
		far = interfaceName
	}
	return near, far
}

// makeRouters creates the network namespaces of the routers. The files keep them alive.
func (w *wireSide) makeRouters(spec Spec) error {
	for i, h := range spec.Hops {
		err := onThread(func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("create a network namespace: %w", err)
			}
			file, err := os.Open("/proc/thread-self/ns/net")
			if err != nil {
				return err
			}
			w.routers = append(w.routers, file)
			return h.forward()
		})
		if err != nil {
			return fmt.Errorf("make router %d: %w", i+1, err)
		}
	}
	return nil
}

// forward applies the settings that a router needs before it has interfaces, which inherit
// them.
func (h Hop) forward() error {
	gap, all := "", "" // for one address, and for all addresses together
	if h.ICMP > 0 {
		gap = strconv.Itoa(1000 / h.ICMP) // milliseconds
	} else if h.ICMP == unlimited {
		gap, all = "0", "1000000"
	}
	return h.write([]setting{
		{"ipv4/ip_forward", "1"},
		{"ipv4/conf/all/rp_filter", "0"}, // members of a bundle carry one direction only
		{"ipv4/conf/default/rp_filter", "0"},
		{"ipv4/fib_multipath_hash_policy", "1"}, // addresses and ports
		{"ipv4/icmp_ratelimit", gap},
		{"ipv4/icmp_msgs_per_sec", all}, // and ICMPv6: icmp_global_allow of net/ipv4/icmp.c
		{"ipv4/icmp_msgs_burst", all},
		{"ipv6/fib_multipath_hash_policy", "1"},
		{"ipv6/icmp/ratelimit", gap},
	})
}

// setting is a file below /proc/sys/net and the value to write to it, unless that is empty.
type setting struct{ name, value string }

func (h Hop) write(settings []setting) error {
	for _, s := range settings {
		if s.value == "" {
			continue
		}
		err := os.WriteFile("/proc/sys/net/"+s.name, []byte(s.value), 0)
		switch {
		case err == nil:
		case strings.HasPrefix(s.name, "ipv6/") && errors.Is(err, fs.ErrNotExist): // no IPv6
		case strings.HasPrefix(s.name, "ipv4/icmp_msgs") && errors.Is(err, fs.ErrNotExist): // an older kernel, with one limit for all namespaces
		case strings.Contains(s.name, "multipath") && h.Members == 0: // a kernel without bundles
		default:
			return fmt.Errorf("set %s: %w", strings.ReplaceAll("net/"+s.name, "/", "."), err)
		}
	}
	return nil
}

// layVeths creates every cable. spaces are those of the hosts and routers in order.
func (w *wireSide) layVeths(spec Spec, spaces []*os.File) error {
	cables := spec.cables()
	for _, c := range cables {
		if err := w.layVeth(spec, c, spaces[c.at], spaces[c.at+1], 2*len(cables)); err != nil {
			return fmt.Errorf("link %d: %w", c.number, err)
		}
	}
	return nil
}

// layVeth creates two veth pairs with a wire between them, or one pair if there is nothing to
// emulate.
func (w *wireSide) layVeth(spec Spec, c cable, near, far *os.File, ports int) error {
	nearName, farName := c.ends(len(spec.Hops))
	if !c.emulated(len(spec.Hops)) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.Namespace = nearName, netlink.NsFd(near.Fd())
		return addVeth(attrs, farName, far, spec.MTU)
	}
	one, err := vethPort(wireEnd(c.number, model.Near), nearName, near, spec.MTU, ports)
	if err != nil {
		return err
	}
	two, err := vethPort(wireEnd(c.number, model.Far), farName, far, spec.MTU, ports)
	if err != nil {
		return errors.Join(err, one.Close())
	}
	return w.start(spec, c, one, two)
}

// inside runs do on a thread in a network namespace.
func inside(space *os.File, do func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return do()
	})
}

// allUp sets lo and the lab's interfaces in the thread's network namespace up, without
// addresses.
func allUp() error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	for _, l := range links {
		if !slices.Contains([]string{"veth", "tuntap"}, l.Type()) && l.Attrs().Flags&net.FlagLoopback == 0 {
			continue // some kernels put tunnels into every namespace
		}
		quietIPv6(l.Attrs().Name)
		if err := netlink.LinkSetUp(l); err != nil {
			return fmt.Errorf("set %s up: %w", l.Attrs().Name, err)
		}
	}
	return nil
}

// joinRouters sets up the routers, whose interfaces now exist.
func (w *wireSide) joinRouters(spec Spec) error {
	for i, space := range w.routers {
		if err := inside(space, func() error { return spec.setUpRouter(i + 1) }); err != nil {
			return fmt.Errorf("set up router %d: %w", i+1, err)
		}
	}
	return nil
}

// setUpRouter sets up router k of the path in its network namespace.
func (s Spec) setUpRouter(k int) error {
	n, h := len(s.Hops), s.Hops[k-1]
	// Not earlier: a router joins a multicast group and announces that on its links.
	err := h.write([]setting{{"ipv6/conf/all/forwarding", "1"}})
	if err != nil {
		return err
	}
	var near, far []gateway
	for _, c := range s.cables() {
		one, two := plan(c.number, nearEnd), plan(c.number, farEnd)
		before, behind := c.ends(n)
		switch c.at {
		case k - 1:
			l, err := setUp(behind, two, one, s.MTU)
			if err != nil {
				return err
			}
			near = append(near, gateway{l.Attrs().Index, one})
		case k:
			l, err := setUp(before, one, two, s.MTU)
			if err != nil {
				return err
			}
			far = append(far, gateway{l.Attrs().Index, two})
		}
	}
	near = near[:1] // a bundle carries in one direction
	add := func(to4, to6 netip.Prefix, most int, over []gateway) {
		if err == nil {
			err = addRoute(to4, to6, most, s.MTU, over...)
		}
	}
	// Host routes only: over a shorter prefix a router may send more ICMPv6 errors than
	// net.ipv6.icmp.ratelimit allows (icmpv6_xrlim_allow of net/ipv6/icmp.c, Linux 6.18).
	single := func(a addresses, most int, over []gateway) {
		add(netip.PrefixFrom(a.v4.Addr(), 32), netip.PrefixFrom(a.v6.Addr(), 128), most, over)
	}
	single(s.hostEnd(model.Near), h.FromMTU, near)
	single(s.hostEnd(model.Far), h.ToMTU, far)
	for i := range n + 1 {
		link := plan(i, nearEnd)
		switch {
		case i < k-1:
			add(link.v4.Masked(), link.v6.Masked(), h.FromMTU, near)
		case i > k:
			add(link.v4.Masked(), link.v6.Masked(), h.ToMTU, far)
		}
	}
	return err
}

// missedByRouters adds the frames that the routers' interfaces dropped on sending.
func (w *wireSide) missedByRouters(st *Stats) error {
	for i, space := range w.routers {
		err := inside(space, func() error {
			links, err := netlink.LinkList()
			for _, l := range links {
				missed, wrong := dropped(l)
				err = errors.Join(err, wrong)
				switch name := l.Attrs().Name; {
				case strings.HasPrefix(name, string(model.Far)):
					st.To.Missed += missed
				case strings.HasPrefix(name, string(model.Near)):
					st.From.Missed += missed
				}
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("read counters of router %d: %w", i+1, err)
		}
	}
	return nil
}
