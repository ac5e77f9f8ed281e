package facts

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/knob/link"
)

// readNICs lists the interfaces of this network namespace.
func readNICs(ctx context.Context, x *knob.Index, first string) ([]model.NIC, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	r := nicReader{root: os.DirFS("/"), links: links}
	parts := r.below(r.byName(first))
	var all []model.NIC
	for _, l := range r.chosen(first) {
		n := r.read(ctx, l)
		switch {
		case n.Name == first:
		case isDevice(l):
			n.Settings = settings(ctx, x, n.Name)
		case !slices.Contains(parts, n.Name):
			n.Offloads = fact.Unknown[[]model.Offload]("made by software, and not on the way to the other end")
		}
		all = append(all, n)
	}
	return all, nil
}

// nicReader reads interfaces.
type nicReader struct {
	root  fs.FS
	links []netlink.Link
}

// chosen sorts the interfaces: the one named first, its parts, those with a device, then the
// others; it drops the last ones if there are too many.
func (r nicReader) chosen(first string) []netlink.Link {
	parts := r.below(r.byName(first))
	rank := func(l netlink.Link) int {
		switch a := l.Attrs(); {
		case a.Name == first:
			return 0
		case slices.Contains(parts, a.Name):
			return 1
		case a.Flags&net.FlagLoopback != 0:
			return 6
		case l.Type() == "device" && a.Flags&net.FlagUp != 0:
			return 2
		case l.Type() == "device":
			return 3
		case a.Flags&net.FlagUp != 0:
			return 4
		}
		return 5
	}
	list := slices.Clone(r.links)
	slices.SortStableFunc(list, func(a, b netlink.Link) int { return rank(a) - rank(b) })
	return list[:min(len(list), maxNICs)]
}

func (r nicReader) byName(name string) netlink.Link {
	for _, l := range r.links {
		if l.Attrs().Name == name {
			return l
		}
	}
	return nil
}

func (r nicReader) byIndex(index int) netlink.Link {
	for _, l := range r.links {
		if l.Attrs().Index == index {
			return l
		}
	}
	return nil
}

// below names the parts of l, or the interface that it is a VLAN or a copy of. The other end
// of a veth is not a part, and may be in another namespace.
func (r nicReader) below(l netlink.Link) []string {
	if l == nil {
		return nil
	}
	var all []string
	for _, other := range r.links {
		if other.Attrs().MasterIndex == l.Attrs().Index {
			all = append(all, other.Attrs().Name)
		}
	}
	if slices.Contains([]string{"vlan", "macvlan", "ipvlan", "macvtap", "ipvtap", "macsec"}, l.Type()) {
		if parent := r.byIndex(l.Attrs().ParentIndex); parent != nil {
			all = append(all, parent.Attrs().Name)
		}
	}
	return all
}

func (r nicReader) read(ctx context.Context, l netlink.Link) model.NIC {
	const source = "rtnetlink"
	a := l.Attrs()
	n := model.NIC{
		Name: a.Name, Kind: fact.Known(r.kind(l), source), Up: up(a), MAC: fact.Unknown[string]("has none"),
		MTU: fact.Known(a.MTU, source), MTUMin: mtuBound(ctx, a.Name, link.MinMTU), MTUMax: mtuBound(ctx, a.Name, link.MaxMTU),
		Media: media(a.Name), Offloads: offloads(a.Name), Qdisc: qdisc(l),
		Master: fact.Known("", source), Below: r.below(l),
		VLAN: fact.Unknown[int]("not a VLAN"), Bond: fact.Unknown[string]("not a bond"),
	}
	if len(a.HardwareAddr) > 0 && a.Flags&net.FlagLoopback == 0 {
		n.MAC = fact.Known(a.HardwareAddr.String(), source)
	}
	if a.MasterIndex != 0 {
		if m := r.byIndex(a.MasterIndex); m != nil {
			n.Master = fact.Known(m.Attrs().Name, source)
		} else {
			n.Master = fact.Unknown[string]("interface " + strconv.Itoa(a.MasterIndex) + " is not to be seen here")
		}
	}
	switch v := l.(type) {
	case *netlink.Vlan:
		n.VLAN = fact.Known(v.VlanId, source)
	case *netlink.Bond:
		n.Bond = fact.Known(v.Mode.String(), source)
	}
	addresses, err := netlink.AddrList(l, netlink.FAMILY_ALL)
	for _, one := range addresses {
		if err == nil && one.IPNet != nil {
			n.Addresses = append(n.Addresses, one.IPNet.String())
		}
	}
	r.readDriver(&n, l)
	if isDevice(l) {
		tellRadio(&n)
	}
	if rate := linkRate(sysClassNet, l); rate.IsKnown() || !isDevice(l) {
		n.Media.Speed = rate // the speed that a virtual link reports means nothing
	}
	return n
}

// isDevice reports whether l is a physical interface, or stands for such interfaces.
func isDevice(l netlink.Link) bool {
	return slices.Contains([]string{"device", "bond", "team", "vlan"}, l.Type()) && l.Attrs().Flags&net.FlagLoopback == 0
}

func (r nicReader) readDriver(n *model.NIC, l netlink.Link) {
	name := l.Attrs().Name
	i, err := driverInfo(name)
	reported := func(text string) fact.Of[string] {
		if err != nil {
			return fact.Unknown[string](err.Error())
		}
		return fact.If(text != "" && text != "N/A", text, "ethtool", "the driver does not report it")
	}
	n.Driver, n.Version, n.Firmware = reported(i.Driver), reported(i.Version), reported(i.Firmware)
	switch to := r.devicePath(l); {
	case l.Type() != "device" || l.Attrs().Flags&net.FlagLoopback != 0:
		n.Bus = unknownBus("made by software")
		n.Bus.Kind = fact.Known("virtual", "rtnetlink")
	default:
		n.Bus = busOf(r.root, i.Bus, to)
		r.tellSlot(&n.Bus, name, i)
	}
}

// devicePath returns the path of l's device in sysfs, or "" if the mounted sysfs shows
// another namespace.
func (r nicReader) devicePath(l netlink.Link) string {
	if !shows(sysClassNet, l.Attrs()) {
		return ""
	}
	to, err := fs.ReadLink(r.root, strings.TrimPrefix(sysClassNet, "/")+"/"+l.Attrs().Name)
	if err != nil {
		return ""
	}
	return to
}

// kind returns the kind of an interface.
func (r nicReader) kind(l netlink.Link) string {
	if l.Attrs().Flags&net.FlagLoopback != 0 {
		return "loopback"
	}
	if l.Type() != "device" || !shows(sysClassNet, l.Attrs()) {
		return l.Type()
	}
	if _, err := fs.Stat(r.root, strings.TrimPrefix(sysClassNet, "/")+"/"+l.Attrs().Name+"/phy80211"); err == nil {
		return "wireless"
	}
	return l.Type()
}

// up reports whether an interface is up: a working tunnel may report unknown.
func up(a *netlink.LinkAttrs) fact.Of[bool] {
	s := a.OperState
	return fact.Known(s == netlink.OperUp || s == netlink.OperUnknown && a.RawFlags&unix.IFF_RUNNING != 0, "rtnetlink")
}

// mtuBound reads a bound of the MTU. A maximum of 0 means that the driver sets none (Linux
// net/core/dev.c dev_validate_mtu).
func mtuBound(ctx context.Context, device, name string) fact.Of[int] {
	a, err := link.Open(device, name)
	if err != nil {
		return fact.Unknown[int](err.Error())
	}
	text, err := a.Read(ctx)
	if err != nil {
		return fact.Unknown[int](err.Error())
	}
	n, err := strconv.Atoi(text)
	return fact.If(err == nil && (n > 0 || name != link.MaxMTU), n, "rtnetlink", "the driver does not report it")
}
