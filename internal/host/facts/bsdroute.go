package facts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// routeABI is what differs between the routing sockets of FreeBSD and macOS, route(4): struct
// rt_msghdr and the alignment of addresses (FreeBSD sys/net/route.h, xnu bsd/net/route.h).
type routeABI struct {
	header                          int  // bytes of struct rt_msghdr
	flags, addrs, pid, number, fail int  // offsets of its words
	mtu                             int  // offset of rmx_mtu
	wide                            bool // rmx_mtu has 64 bits
	round                           int  // alignment of addresses
	family6                         byte
}

func freebsdRoutes() routeABI {
	return routeABI{header: 152, flags: 8, addrs: 12, pid: 16, number: 20, fail: 24, mtu: 48, wide: true, round: 8, family6: 28}
}

func darwinRoutes() routeABI {
	return routeABI{header: 92, flags: 8, addrs: 12, pid: 16, number: 20, fail: 24, mtu: 40, round: 4, family6: 30}
}

const (
	routeVersion = 5 // RTM_VERSION of both
	routeGet     = 4 // RTM_GET
	routeGateway = 2 // RTF_GATEWAY
	family4      = 2 // AF_INET
)

// Offsets of the address in struct sockaddr_in and sockaddr_in6, and their sizes.
const (
	address4At, size4 = 4, 16
	address6At, size6 = 8, 28
)

var errRoute = errors.New("the routing socket's answer is cut short or malformed")

// request returns an RTM_GET for the route to peer.
func (a routeABI) request(peer netip.Addr, process, number int32) []byte {
	size, family, at := size4, byte(family4), address4At
	if peer.Is6() {
		size, family, at = size6, a.family6, address6At
	}
	b := make([]byte, a.header+(size+a.round-1)/a.round*a.round)
	binary.LittleEndian.PutUint16(b, uint16(len(b)))
	b[2], b[3] = routeVersion, routeGet
	binary.LittleEndian.PutUint32(b[a.addrs:], 1) // RTA_DST
	binary.LittleEndian.PutUint32(b[a.pid:], uint32(process))
	binary.LittleEndian.PutUint32(b[a.number:], uint32(number))
	b[a.header], b[a.header+1] = byte(size), family
	copy(b[a.header+at:], peer.WithZone("").AsSlice())
	return b
}

// answers reports whether b is the answer to a request.
func (a routeABI) answers(b []byte, process, number int32) bool {
	return len(b) >= a.header && b[2] == routeVersion && b[3] == routeGet &&
		binary.LittleEndian.Uint32(b[a.pid:]) == uint32(process) && binary.LittleEndian.Uint32(b[a.number:]) == uint32(number)
}

// decode decodes an answer: the gateway, "" if the peer is on the link, and the MTU of the
// route, 0 for none.
func (a routeABI) decode(b []byte) (gateway string, mtu int, err error) {
	if len(b) < a.header {
		return "", 0, errRoute
	}
	if n := binary.LittleEndian.Uint32(b[a.fail:]); n != 0 {
		return "", 0, fmt.Errorf("the routing socket answers with error %d", n)
	}
	metric := uint64(binary.LittleEndian.Uint32(b[a.mtu:]))
	if a.wide {
		metric = binary.LittleEndian.Uint64(b[a.mtu:])
	}
	if metric < 1<<20 {
		mtu = int(metric)
	}
	if binary.LittleEndian.Uint32(b[a.flags:])&routeGateway == 0 {
		return "", mtu, nil
	}
	addrs := binary.LittleEndian.Uint32(b[a.addrs:])
	rest := b[a.header:]
	for bit := uint32(1); bit <= 2; bit <<= 1 { // RTA_DST, then RTA_GATEWAY
		if addrs&bit == 0 {
			continue
		}
		if len(rest) < 2 {
			return "", mtu, errRoute
		}
		size := int(rest[0])
		if size > len(rest) {
			return "", mtu, errRoute
		}
		if bit == 2 {
			gateway, err := a.address(rest[:size])
			return gateway, mtu, err
		}
		rest = rest[min(len(rest), max(a.round, (size+a.round-1)/a.round*a.round)):]
	}
	return "", mtu, errRoute
}

// address decodes a struct sockaddr of an Internet family.
func (a routeABI) address(b []byte) (string, error) {
	switch {
	case len(b) >= size4 && b[1] == family4:
		return netip.AddrFrom4([4]byte(b[address4At : address4At+4])).String(), nil
	case len(b) >= size6 && b[1] == a.family6:
		ip := [16]byte(b[address6At : address6At+16])
		if ip[0] == 0xfe && ip[1]&0xc0 == 0x80 { // the kernel keeps the scope in these bytes (KAME)
			ip[2], ip[3] = 0, 0
		}
		return netip.AddrFrom16(ip).String(), nil
	}
	return "", errRoute
}
