package route

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// find returns the message of the only route to the destination by the interface, as the
// kernel reports it.
func (m *Metric) find() ([]byte, error) {
	l, err := netlink.LinkByName(m.device)
	if err != nil {
		return nil, m.classify(err)
	}
	family := byte(unix.AF_INET)
	if m.destination.Addr().Is6() {
		family = unix.AF_INET6
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
	req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: family}})
	messages, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	if err != nil {
		return nil, m.classify(err)
	}
	var found []byte
	for _, msg := range messages {
		same, err := m.is(msg, l.Attrs().Index)
		switch {
		case err != nil:
			return nil, err
		case same && found != nil:
			return nil, fmt.Errorf("there are several routes to %s by %s: %w", m.destination, m.device, errors.ErrUnsupported)
		case same:
			found = msg
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no route to %s by %s: %w", m.destination, m.device, fs.ErrNotExist)
	}
	return found, nil
}

// is reports whether msg is a unicast route of the main table to the destination by the
// interface.
func (m *Metric) is(msg []byte, index int) (bool, error) {
	if len(msg) < rtmsgSize {
		return false, errMessage
	}
	const cloned = 0x200 // RTM_F_CLONED: an exception, not a route
	flags := binary.NativeEndian.Uint32(msg[flagsAt:])
	if int(msg[1]) != m.destination.Bits() || msg[2] != 0 || msg[4] != unix.RT_TABLE_MAIN || msg[7] != unix.RTN_UNICAST || flags&cloned != 0 {
		return false, nil
	}
	oif, err := attribute(msg, unix.RTA_OIF)
	if err != nil || len(oif) < 4 || int(binary.NativeEndian.Uint32(oif)) != index {
		return false, err
	}
	to, err := attribute(msg, unix.RTA_DST)
	if err != nil {
		return false, err
	}
	if m.destination.Bits() == 0 {
		return len(to) == 0, nil
	}
	return bytes.Equal(to, m.destination.Addr().AsSlice()), nil
}

func (m *Metric) replace(msg []byte) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_REPLACE)
	req.AddRawData(msg)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return m.classify(err)
}

// classify converts an error of the system: it keeps the sentinels and the text, without the
// number; nil stays nil.
func (m *Metric) classify(err error) error {
	_, notFound := errors.AsType[netlink.LinkNotFoundError](err)
	switch {
	case err == nil:
		return nil
	case notFound, errors.Is(err, unix.ENODEV), errors.Is(err, unix.ESRCH):
		return fmt.Errorf("route to %s by %s: %w", m.destination, m.device, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("route to %s by %s: %w", m.destination, m.device, fs.ErrPermission)
	}
	return fmt.Errorf("route to %s by %s: %s", m.destination, m.device, err.Error())
}

// towards reads the matching entry of the kernel's table (RTM_F_FIB_MATCH, Linux 4.13).
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

// everywhere returns the default route of a family, as Open names it.
func everywhere(peer netip.Addr) string {
	if peer.Is4() {
		return "default"
	}
	return "::/0"
}
