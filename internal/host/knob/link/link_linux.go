package link

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// minIPv6 is the least MTU of a link that carries IPv6, RFC 8200 section 5.
// Below it Linux removes the interface's IPv6 addresses, which no later write
// brings back (net/ipv6/addrconf.c addrconf_notify, NETDEV_CHANGEMTU).
const minIPv6 = 1280

func open(device, name string) (*Attribute, error) {
	if name != MTU && name != TxQLen {
		return nil, fmt.Errorf("attribute %q of an interface: %w", name, errors.ErrUnsupported)
	}
	if device == "" || len(device) >= unix.IFNAMSIZ {
		return nil, fmt.Errorf("interface %q: not a name", device)
	}
	return &Attribute{device: device, name: name}, nil
}

func (a *Attribute) read() (string, error) {
	l, err := a.link()
	if err != nil {
		return "", err
	}
	n := l.Attrs().MTU
	if a.name == TxQLen {
		n = l.Attrs().TxQLen
	}
	return strconv.Itoa(n), nil
}

func (a *Attribute) check(raw string) error {
	n, err := number(raw)
	if err != nil {
		return err
	}
	l, err := a.link()
	if err != nil || a.name != MTU || n >= minIPv6 {
		return err
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

func (a *Attribute) write(raw string) error {
	n, err := number(raw)
	if err != nil {
		return err
	}
	l, err := a.link()
	if err != nil {
		return err
	}
	if a.name == MTU {
		err = netlink.LinkSetMTU(l, n)
	} else {
		err = netlink.LinkSetTxQLen(l, n)
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

// classify keeps the sentinels and the text of an error of the system, and
// leaves its number behind.
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

// number reads what the kernel keeps in an unsigned 32-bit attribute; the
// upper half is refused as no device uses it.
func number(raw string) (int, error) {
	n, err := strconv.ParseUint(raw, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("value %q: want a number", raw)
	}
	return int(n), nil
}
