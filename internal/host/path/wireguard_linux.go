package path

import (
	"net/netip"

	"golang.zx2c4.com/wireguard/wgctrl"
)

// wireguard returns where the WireGuard device called name sends packets to inner: the
// endpoint of the peer whose allowed addresses match best, for a device of the kernel
// (generic netlink, which needs CAP_NET_ADMIN) or of a process (its socket under
// /var/run/wireguard). It returns false if the device is not WireGuard's, or cannot be read.
func wireguard(name string, inner netip.Addr) (netip.Addr, bool) {
	c, err := wgctrl.New()
	if err != nil {
		return netip.Addr{}, false
	}
	defer c.Close() // only read
	d, err := c.Device(name)
	if err != nil {
		return netip.Addr{}, false
	}
	var to netip.Addr
	best := -1
	for _, p := range d.Peers {
		if p.Endpoint == nil {
			continue
		}
		for _, n := range p.AllowedIPs {
			if bits, _ := n.Mask.Size(); n.Contains(inner.AsSlice()) && bits > best {
				if a, ok := netip.AddrFromSlice(p.Endpoint.IP); ok {
					to, best = a.Unmap(), bits
				}
			}
		}
	}
	return to, to.IsValid()
}
