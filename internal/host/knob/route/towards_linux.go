package route

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// towards asks the kernel for the entry of its table (RTM_F_FIB_MATCH, Linux 4.13).
func towards(peer netip.Addr) (destination, device string, err error) {
	o := &netlink.RouteGetOptions{FIBMatch: true, Oif: peer.Zone()}
	all, err := netlink.RouteGetWithOptions(net.IP(peer.WithZone("").AsSlice()), o)
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || err == nil && len(all) == 0 {
		return "", "", fmt.Errorf("route to %s: %w", peer, fs.ErrNotExist)
	}
	if err != nil {
		return "", "", fmt.Errorf("route to %s: %s", peer, err.Error()) // the system's number stays here
	}
	r := all[0]
	if r.LinkIndex == 0 || r.Table != unix.RT_TABLE_MAIN || r.Type != unix.RTN_UNICAST {
		return "", "", fmt.Errorf("route to %s: none of the main table: %w", peer, errors.ErrUnsupported)
	}
	l, err := netlink.LinkByIndex(r.LinkIndex)
	if err != nil {
		return "", "", fmt.Errorf("route to %s: interface %d: %w", peer, r.LinkIndex, fs.ErrNotExist)
	}
	if r.Dst == nil {
		return everywhere(peer), l.Attrs().Name, nil
	}
	to, ok := netip.AddrFromSlice(r.Dst.IP)
	ones, _ := r.Dst.Mask.Size()
	switch {
	case !ok:
		return "", "", fmt.Errorf("route to %s: no destination: %w", peer, errors.ErrUnsupported)
	case ones == 0:
		return everywhere(peer), l.Attrs().Name, nil
	}
	return netip.PrefixFrom(to.Unmap(), ones).String(), l.Attrs().Name, nil
}

// everywhere is the default route of a family, as Open names it.
func everywhere(peer netip.Addr) string {
	if peer.Is4() {
		return "default"
	}
	return "::/0"
}
