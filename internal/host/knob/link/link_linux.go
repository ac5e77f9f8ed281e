package link

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attribute is one number of one interface. It is safe for concurrent use.
type Attribute struct {
	device string
	name   string
}

// The attributes, by native name.
const (
	MTU    = "mtu"          // IFLA_MTU, bytes
	TxQLen = "txqlen"       // IFLA_TXQLEN, packets
	GSOMax = "gso_max_size" // IFLA_GSO_MAX_SIZE, bytes
	GROMax = "gro_max_size" // IFLA_GRO_MAX_SIZE, bytes

	// MinMTU and those below are facts, which cannot be written.
	MinMTU = "min_mtu"      // IFLA_MIN_MTU, bytes
	MaxMTU = "max_mtu"      // IFLA_MAX_MTU, bytes; 0 means that the driver does not say
	TSOMax = "tso_max_size" // IFLA_TSO_MAX_SIZE, bytes
	Up     = "up"           // 1 if the interface is operationally up (RFC 2863 operational status)
)

// minIPv6 is the least MTU of a link that carries IPv6, RFC 8200 section 5. Below it Linux
// removes the interface's IPv6 addresses, which no later write restores (net/ipv6/addrconf.c
// addrconf_notify, NETDEV_CHANGEMTU).
const minIPv6 = 1280

// Open returns the attribute name of the interface called device. It does not query the
// system. It wraps errors.ErrUnsupported for other names.
func Open(device, name string) (*Attribute, error) {
	switch name {
	case MTU, TxQLen, GSOMax, GROMax, MinMTU, MaxMTU, TSOMax, Up:
	default:
		return nil, fmt.Errorf("attribute %q of an interface: %w", name, errors.ErrUnsupported)
	}
	if device == "" || len(device) >= unix.IFNAMSIZ {
		return nil, fmt.Errorf("interface %q: not a name", device)
	}
	return &Attribute{device: device, name: name}, nil
}

// Read returns the number in decimal. It wraps fs.ErrNotExist when there is no
// such interface.
func (a *Attribute) Read(context.Context) (string, error) {
	l, err := a.link()
	if err != nil {
		return "", err
	}
	n := 0
	switch at := l.Attrs(); a.name {
	case MTU:
		n = at.MTU
	case TxQLen:
		n = at.TxQLen
	case GSOMax:
		n = int(at.GSOMaxSize)
	case GROMax:
		n = int(at.GROMaxSize)
	case TSOMax:
		n = int(at.TSOMaxSize)
	case Up: // a working tunnel may report unknown
		if s := at.OperState; s == netlink.OperUp || s == netlink.OperUnknown && at.RawFlags&unix.IFF_RUNNING != 0 {
			n = 1
		}
	case MinMTU:
		return a.raw(l, unix.IFLA_MIN_MTU)
	case MaxMTU:
		return a.raw(l, unix.IFLA_MAX_MTU)
	}
	return strconv.Itoa(n), nil
}

// raw reads an attribute of 32 bits that the netlink package does not decode.
func (a *Attribute) raw(l netlink.Link, id uint16) (string, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	info := nl.NewIfInfomsg(unix.AF_UNSPEC)
	info.Index = int32(l.Attrs().Index)
	req.AddData(info)
	answers, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return "", a.classify(err)
	}
	for _, m := range answers {
		attributes, err := nl.ParseRouteAttr(m[min(len(m), unix.SizeofIfInfomsg):])
		if err != nil {
			return "", a.classify(err)
		}
		for _, at := range attributes {
			if at.Attr.Type == id && len(at.Value) >= 4 {
				return strconv.FormatUint(uint64(binary.NativeEndian.Uint32(at.Value)), 10), nil
			}
		}
	}
	return "", fmt.Errorf("%s of %s: this kernel does not report it: %w", a.name, a.device, errors.ErrUnsupported)
}

// Check reports whether raw could be written: a number, on an interface that exists, and not
// an MTU that would end IPv6 there while it has IPv6 addresses.
func (a *Attribute) Check(_ context.Context, raw string) error {
	n, err := number(raw)
	if err != nil {
		return err
	}
	l, err := a.link()
	switch {
	case err != nil:
		return err
	case a.isFact():
		return fmt.Errorf("%s of %s is a fact and no setting: %w", a.name, a.device, errors.ErrUnsupported)
	case (a.name == GSOMax || a.name == GROMax) && n < minGSO:
		return fmt.Errorf("%s %d: below %d nothing is joined", a.name, n, minGSO)
	case a.name != MTU:
		return nil
	}
	// if the kernel does not report the limit, the write fails
	if text, err := a.raw(l, unix.IFLA_MAX_MTU); err == nil {
		if most, err := number(text); err == nil && most > 0 && n > most {
			return fmt.Errorf("mtu %d on %s: its driver takes %d at most", n, a.device, most)
		}
	}
	if n >= minIPv6 {
		return nil
	}
	addresses, err := netlink.AddrList(l, netlink.FAMILY_V6)
	if err != nil {
		return a.classify(err)
	}
	if len(addresses) > 0 {
		return fmt.Errorf("mtu %d on %s: the kernel would remove its IPv6 addresses for good; IPv6 needs %d", n, a.device, minIPv6)
	}
	return nil
}

// Write sets the number. It wraps fs.ErrPermission and fs.ErrNotExist. A value
// that the driver refuses is an error with the driver's reason.
func (a *Attribute) Write(ctx context.Context, raw string) error {
	n, err := number(raw)
	if err != nil {
		return err
	}
	l, err := a.link()
	if err != nil {
		return err
	}
	switch a.name {
	case MTU:
		err = netlink.LinkSetMTU(l, n)
	case TxQLen:
		err = netlink.LinkSetTxQLen(l, n)
	case GSOMax:
		err = netlink.LinkSetGSOMaxSize(l, n)
	case GROMax:
		err = netlink.LinkSetGROMaxSize(l, n)
	default:
		err = a.Check(ctx, raw)
	}
	if err != nil {
		return a.classify(err)
	}
	return nil
}

func (a *Attribute) link() (netlink.Link, error) {
	l, err := netlink.LinkByName(a.device)
	if err != nil {
		return nil, a.classify(err)
	}
	return l, nil
}

// classify converts an error of the system: it keeps the sentinels and the text, without the
// number.
func (a *Attribute) classify(err error) error {
	_, notFound := errors.AsType[netlink.LinkNotFoundError](err)
	switch {
	case notFound, errors.Is(err, unix.ENODEV):
		return fmt.Errorf("interface %s: %w", a.device, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("interface %s: %w", a.device, fs.ErrPermission)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("interface %s: %w", a.device, errors.ErrUnsupported)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("interface %s: its driver refuses this %s", a.device, a.name)
	}
	return fmt.Errorf("interface %s: %s", a.device, err.Error())
}

// minGSO is the least value that linerate sets, one full Ethernet packet: the kernel checks
// only the upper limit (Linux net/core/rtnetlink.c do_setlink).
const minGSO = 1500

func (a *Attribute) isFact() bool {
	return a.name == MinMTU || a.name == MaxMTU || a.name == TSOMax || a.name == Up
}

// number parses the value of an unsigned 32-bit attribute; it refuses the upper half, which
// no device uses.
func number(raw string) (int, error) {
	n, err := strconv.ParseUint(raw, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("value %q: want a number", raw)
	}
	return int(n), nil
}
