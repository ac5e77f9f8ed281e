// Package route reads and writes the metrics of one route: what TCP and IP do differently for
// its destinations (Linux).
package route

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
)

// Metric is one metric of one route. It is safe for concurrent use.
type Metric struct {
	name        string
	id          uint16
	destination netip.Prefix // the zero value is the default route
	device      string
}

// Open returns the metric called name of the route that target names, as in "default dev
// eth0" and "10.0.0.0/24 dev eth0", in the main table. A default route is that of IPv4, or
// the one to ::/0. It does not query the system. It wraps errors.ErrUnsupported for other
// names, and in every call on systems other than Linux.
func Open(target, name string) (*Metric, error) {
	id, ok := metrics()[name]
	if !ok {
		return nil, fmt.Errorf("metric %q of a route: %w", name, errors.ErrUnsupported)
	}
	words := strings.Fields(target)
	if len(words) != 3 || words[1] != "dev" || len(words[2]) > maxDevice {
		return nil, fmt.Errorf("route %q: want DESTINATION dev INTERFACE", target)
	}
	m := &Metric{name: name, id: id, device: words[2]}
	if words[0] == "default" {
		m.destination = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		return m, nil
	}
	p, err := netip.ParsePrefix(words[0])
	if err != nil || p != p.Masked() {
		return nil, fmt.Errorf("route %q: want a prefix such as 10.0.0.0/24, or default", target)
	}
	m.destination = p
	return m, nil
}

// maxDevice is the longest name of an interface, IFNAMSIZ less the final zero.
const maxDevice = 15

// unset is the value of a metric that a route lacks.
const unset = 0

// metrics are RTAX_* of Linux include/uapi/linux/rtnetlink.h.
func metrics() map[string]uint16 {
	return map[string]uint16{
		"mtu": 2, "window": 3, "rtt": 4, "rttvar": 5, "ssthresh": 6, "cwnd": 7, "advmss": 8, "reordering": 9, "hoplimit": 10,
		"initcwnd": 11, "rto_min": 13, "initrwnd": 14, "quickack": 15,
	}
}

// Read returns the metric in decimal, 0 if the route has none. It wraps fs.ErrNotExist if
// there is no such route.
func (m *Metric) Read(context.Context) (string, error) {
	msg, err := m.find()
	if err != nil {
		return "", err
	}
	n, err := readMetric(msg, m.id)
	return strconv.FormatUint(uint64(n), 10), err
}

// Check reports whether raw could be written: a number, on a route that exists once.
func (m *Metric) Check(_ context.Context, raw string) error {
	if _, err := m.number(raw); err != nil {
		return err
	}
	_, err := m.find()
	return err
}

// Write sets the metric; 0 removes it. The rest of the route stays as the kernel reports it.
// It wraps fs.ErrPermission without the rights to change routes.
func (m *Metric) Write(_ context.Context, raw string) error {
	n, err := m.number(raw)
	if err != nil {
		return err
	}
	msg, err := m.find()
	if err != nil {
		return err
	}
	changed, err := withMetric(msg, m.id, n)
	if err != nil {
		return err
	}
	return m.replace(changed)
}

func (m *Metric) number(raw string) (uint32, error) {
	n, err := strconv.ParseUint(raw, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%s %q: want a number", m.name, raw)
	}
	if m.name == "hoplimit" && n > 255 || m.name == "quickack" && n > 1 {
		return 0, fmt.Errorf("%s %d: too large", m.name, n)
	}
	return uint32(n), nil
}

// A route message is struct rtmsg of 12 bytes and attributes; the metrics are
// an attribute of attributes (Linux include/uapi/linux/rtnetlink.h).
const (
	rtmsgSize     = 12
	flagsAt       = 8 // rtm_flags in struct rtmsg
	attrMetrics   = 8
	attrCacheInfo = 12
	typeMask      = 0x3fff
	// carried are the flags that a request may have: the others are kernel state
	// (RTNH_F_DEAD, RTNH_F_LINKDOWN, RTM_F_CLONED and more). Kept are RTNH_F_PERVASIVE 2 and
	// RTNH_F_ONLINK 4.
	carried = 2 | 4
)

var errMessage = errors.New("the kernel's answer is cut short or malformed")

// attributes decodes the attributes of a route message.
func attributes(msg []byte) ([]netlink.Attribute, error) {
	if len(msg) < rtmsgSize {
		return nil, errMessage
	}
	return unpack(msg[rtmsgSize:])
}

func unpack(b []byte) ([]netlink.Attribute, error) {
	all, err := netlink.UnmarshalAttributes(b)
	if err != nil {
		return nil, errMessage
	}
	return all, nil
}

// attribute returns the value of an attribute in a route message, nil for none.
func attribute(msg []byte, id uint16) ([]byte, error) {
	all, err := attributes(msg)
	i := slices.IndexFunc(all, func(a netlink.Attribute) bool { return a.Type&typeMask == id })
	if i < 0 {
		return nil, err
	}
	return all[i].Data, nil
}

// readMetric returns a metric of a route message, 0 for none.
func readMetric(msg []byte, id uint16) (uint32, error) {
	nested, err := attribute(msg, attrMetrics)
	if err != nil {
		return 0, err
	}
	all, err := unpack(nested)
	for _, a := range all {
		if a.Type&typeMask == id && len(a.Data) == 4 {
			return binary.NativeEndian.Uint32(a.Data), nil
		}
	}
	return unset, err
}

// withMetric returns the route message with one metric changed, ready to send back, without
// the attributes that only the kernel may set.
func withMetric(msg []byte, id uint16, n uint32) ([]byte, error) {
	all, err := attributes(msg)
	if err != nil {
		return nil, err
	}
	var out, kept []netlink.Attribute
	for _, a := range all {
		switch a.Type & typeMask {
		case attrMetrics:
			nested, err := unpack(a.Data)
			if err != nil {
				return nil, err
			}
			kept = append(kept, slices.DeleteFunc(nested, func(one netlink.Attribute) bool { return one.Type&typeMask == id })...)
		case attrCacheInfo:
		default:
			out = append(out, a)
		}
	}
	if n != unset {
		kept = append(kept, netlink.Attribute{Type: id, Data: binary.NativeEndian.AppendUint32(nil, n)})
	}
	if len(kept) > 0 {
		metrics, err := netlink.MarshalAttributes(kept)
		if err != nil {
			return nil, err
		}
		out = append(out, netlink.Attribute{Type: attrMetrics, Data: metrics})
	}
	body, err := netlink.MarshalAttributes(out)
	head := slices.Clone(msg[:rtmsgSize])
	binary.NativeEndian.PutUint32(head[flagsAt:], binary.NativeEndian.Uint32(head[flagsAt:])&carried)
	return append(head, body...), err
}

// Towards returns the destination, as Open takes it, and the interface of the route of
// packets to peer: "default" or a prefix. It sends nothing. It wraps fs.ErrNotExist if there
// is no such route, and errors.ErrUnsupported on systems other than Linux.
func Towards(ctx context.Context, peer netip.Addr) (destination, device string, err error) {
	if err := ctx.Err(); err != nil {
		return "", "", err
	}
	return towards(peer.Unmap())
}
