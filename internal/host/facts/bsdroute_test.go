package facts

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"linerate/internal/must"
)

// reply makes the answer of a routing socket: the request's header with flags,
// the MTU, and the addresses of destination and gateway.
func reply(a routeABI, flags uint32, mtu uint64, addresses ...[]byte) []byte {
	b := make([]byte, a.header)
	b[2], b[3] = routeVersion, routeGet
	binary.LittleEndian.PutUint32(b[a.flags:], flags)
	binary.LittleEndian.PutUint32(b[a.addrs:], 1<<len(addresses)-1)
	binary.LittleEndian.PutUint32(b[a.pid:], 7)
	binary.LittleEndian.PutUint32(b[a.number:], 1)
	if a.wide {
		binary.LittleEndian.PutUint64(b[a.mtu:], mtu)
	} else {
		binary.LittleEndian.PutUint32(b[a.mtu:], uint32(mtu))
	}
	for _, one := range addresses {
		b = append(b, one...)
		for (len(b)-a.header)%a.round != 0 {
			b = append(b, 0)
		}
	}
	binary.LittleEndian.PutUint16(b, uint16(len(b)))
	return b
}

func sockaddr(a routeABI, s string) []byte {
	ip := netip.MustParseAddr(s)
	if ip.Is4() {
		b := make([]byte, size4)
		b[0], b[1] = size4, family4
		copy(b[address4At:], ip.AsSlice())
		return b
	}
	b := make([]byte, size6)
	b[0], b[1] = size6, a.family6
	copy(b[address6At:], ip.AsSlice())
	return b
}

func TestRoutesOfBSD(t *testing.T) {
	for name, a := range map[string]routeABI{"freebsd": freebsdRoutes(), "darwin": darwinRoutes()} {
		scoped := sockaddr(a, "fe80::1")
		scoped[address6At+3] = 4 // interface 4, as KAME embeds it
		for what, c := range map[string]struct {
			b       []byte
			gateway string
			mtu     int
		}{
			"gateway":    {reply(a, routeGateway|1, 1500, sockaddr(a, "0.0.0.0"), sockaddr(a, "192.0.2.1")), "192.0.2.1", 1500},
			"six":        {reply(a, routeGateway|1, 1280, sockaddr(a, "::"), sockaddr(a, "2001:db8::1")), "2001:db8::1", 1280},
			"link local": {reply(a, routeGateway|1, 0, sockaddr(a, "::"), scoped), "fe80::1", 0},
			"on link":    {reply(a, 1, 9000, sockaddr(a, "192.0.2.0"), sockaddr(a, "192.0.2.7")), "", 9000},
			"no mask":    {reply(a, routeGateway, 0, make([]byte, a.round), sockaddr(a, "192.0.2.1")), "192.0.2.1", 0},
		} {
			gateway, mtu, err := a.decode(c.b)
			must.True(t, gateway == c.gateway && mtu == c.mtu && err == nil, "%s, %s: %q, %d, %v", name, what, gateway, mtu, err)
			must.True(t, a.answers(c.b, 7, 1) && !a.answers(c.b, 7, 2) && !a.answers(c.b, 8, 1) && !a.answers(c.b[:a.header-1], 7, 1),
				"%s, %s: taken for another request's", name, what)
		}
		whole := reply(a, routeGateway, 1500, sockaddr(a, "0.0.0.0"), sockaddr(a, "192.0.2.1"))
		for n := range len(whole) {
			_, _, err := a.decode(whole[:n])
			must.True(t, err != nil, "%s: %d of %d bytes are accepted", name, n, len(whole))
		}
		failed := reply(a, 0, 0)
		binary.LittleEndian.PutUint32(failed[a.fail:], 3)
		_, _, err := a.decode(failed)
		must.True(t, err != nil, "%s: an error is no error", name)
		// A request is told by its own fields, and names its destination.
		for peer, size := range map[string]int{"198.51.100.7": size4, "2001:db8::7": (size6 + a.round - 1) / a.round * a.round} {
			r := a.request(netip.MustParseAddr(peer), 7, 1)
			got, err := a.address(r[a.header:])
			must.True(t, got == peer && err == nil && len(r) == a.header+size && a.answers(r, 7, 1) && int(binary.LittleEndian.Uint16(r)) == len(r), "%s: request for %s: %q, %v, %d bytes", name, peer, got, err, len(r))
		}
	}
}

func FuzzDecodeRoute(f *testing.F) {
	for _, a := range []routeABI{freebsdRoutes(), darwinRoutes()} {
		f.Add(reply(a, routeGateway, 1500, sockaddr(a, "0.0.0.0"), sockaddr(a, "192.0.2.1")), a.wide)
	}
	f.Fuzz(func(t *testing.T, b []byte, wide bool) {
		a := darwinRoutes()
		if wide {
			a = freebsdRoutes()
		}
		gateway, mtu, err := a.decode(b)
		_, perr := netip.ParseAddr(gateway)
		must.True(t, (err != nil || gateway == "" || perr == nil) && mtu >= 0, "%q, %d, %v", gateway, mtu, err)
	})
}
